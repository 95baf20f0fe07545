"""Two exports into one archive: one of them is told, and the archive is whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import pytest

from offsite.engine.runner import OnProgress
from offsite.model.errors import ArchiveBusy
from tests.batches import make_log
from tests.inline_runner import InlineRunner
from tests.integration.archives.exchange import ALL_FORMATS, ON_BUCKETS, Exchange, NewSegment

T = TypeVar("T")
R = TypeVar("R")


class Interrupting(InlineRunner):
    """When its tasks are done, another export begins: it takes what they wrote for what a crash left."""

    def __init__(self, begin: Callable[[], object]) -> None:
        self._begin = begin

    def run(self, tasks: Sequence[T], function: Callable[[T], R], *, on_progress: OnProgress | None = None) -> list[R]:
        done = super().run(tasks, function, on_progress=on_progress)
        self._begin()
        return done


def filled(exchange: Exchange) -> None:
    exchange.commit(NewSegment(partition=0, start=0, end=20, batches=[make_log(0, 20)]))


@pytest.mark.parametrize("format_name", ALL_FORMATS)
def test_a_folder_lets_one_export_in_at_a_time(exchange: Exchange, format_name: str) -> None:
    filled(exchange)
    first, second = (exchange.job(format_name, "a") for _ in range(2))
    with first.alone(), pytest.raises(ArchiveBusy), second.alone():
        pass
    with second.alone():
        assert second.run(second.plan(), exchange.runner).records == 20


@pytest.mark.parametrize("format_name", [name for name in ON_BUCKETS if name != "osodevops"])
def test_an_export_whose_files_another_one_removed_does_not_list_them(bucket: Exchange, format_name: str) -> None:
    filled(bucket)
    job, another = bucket.job(format_name, "a"), bucket.job(format_name, "a")
    with pytest.raises(ArchiveBusy):
        job.run(job.plan(), Interrupting(another.plan))
    assert bucket.export(format_name, "a").records == 20
    bucket.bring_in(format_name, "a", "back")
    assert bucket.content("back") == bucket.content("original")
