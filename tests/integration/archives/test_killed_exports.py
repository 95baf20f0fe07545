"""Exports that are killed at any moment, again and again, and then let run to their end."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.batches import make_log
from tests.integration.archives.exchange import ALL_FORMATS, Exchange, NewSegment

QUICK = ("parquet", "kafka-backup")
"""One format that is made anew and one that is appended to; the soak takes them all."""
KILLS = 3
WHOLE_EXPORT_S = 0.4
"""About as long as an export takes once it is planned: kills fall all over it."""


@pytest.mark.parametrize(
    "format_name", [each if each in QUICK else pytest.param(each, marks=pytest.mark.soak) for each in ALL_FORMATS]
)
def test_an_export_that_is_killed_again_and_again_ends_whole(exchange: Exchange, format_name: str) -> None:
    for start in range(0, 16_000, 4_000):
        exchange.commit(
            *(
                NewSegment(partition=number, start=start, end=start + 4_000, batches=[make_log(start, start + 4_000)])
                for number in (0, 1)
            )
        )
    moments = random.Random(5)
    delays_s = (0.0, *(moments.uniform(0, WHOLE_EXPORT_S) for _ in range(KILLS)))  # at once: later it may have ended
    killed = sum(_killed_after(exchange, format_name, each) for each in delays_s)
    assert killed, "no export was under way"
    exchange.export(format_name, "a")
    assert exchange.bring_in(format_name, "a", "back").records == 32_000
    assert exchange.content("back") == exchange.content("original")


def _killed_after(exchange: Exchange, format_name: str, delay_s: float) -> bool:
    """Whether the export was still under way."""
    repository = exchange.repository.store.url
    script = Path(__file__).with_name("exporting_process.py")
    command = [sys.executable, str(script), repository, format_name, exchange.places]
    root = Path(__file__).parents[3]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, cwd=root, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"planned\n"
        time.sleep(delay_s)  # the moment is what the test draws
        was_running = process.poll() is None
        process.kill()
    return was_running
