"""Times as Go writes them, against what Go itself wrote (`go_time.json`, by go1.26)."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from offsite.operator.resources.backup import format_go_time

TIMES = [
    datetime(2021, 7, 20, 9, 5, 3, tzinfo=UTC),
    datetime(2026, 11, 24, 21, 53, 39, 120_000, tzinfo=UTC),
    datetime(2024, 2, 29, 0, 0, 0, 5_000, tzinfo=UTC),
    datetime(1999, 12, 31, 12, 59, 59, 999_000, tzinfo=UTC),
]
WRITTEN: list[dict[str, Any]] = json.loads(Path(__file__).with_name("go_time.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("written", WRITTEN, ids=lambda written: written["layout"])
def test_a_time_is_written_as_go_writes_it(written: dict[str, Any]) -> None:
    found = [format_go_time(written["layout"], round(each.timestamp() * 1000)) for each in TIMES]
    assert found == written["formatted"]
