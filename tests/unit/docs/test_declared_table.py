"""The tables of the seeds name tests that are there: a page for each document, a row for each of its statements."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
EXPLANATION = ROOT / "docs" / "explanation"
PAGES = [
    "declared.md",
    "hot-backup.md",
    "object-storage.md",
    "segments.md",
    "command-topic.md",
]
"""A further page is one more line here."""

_NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
_BETWEEN_CELLS = re.compile(r"(?<!\\)\|")
_NOT_RUN = ("the same", "none: ")
"""What stands in place of a test: that of the row above, or why there is nothing to run."""
_COLUMNS = ("the seed", "offsite", "test")
_HEADS = {_COLUMNS[0], "---"}


def _text(page: str) -> str:
    return (EXPLANATION / page).read_text(encoding="utf-8")


def _rows(page: str) -> list[list[str]]:
    """The cells of each row, without the heads."""
    lines = [line for line in _text(page).splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in _BETWEEN_CELLS.split(line)[1:-1]] for line in lines]
    return [row for row in rows if row[0] not in _HEADS]


@pytest.mark.parametrize("page", PAGES)
def test_each_test_that_is_named_is_there(page: str) -> None:
    named = set(_NAMED.findall(_text(page)))
    read = {file: (ROOT / file).read_text(encoding="utf-8") for file, _ in named if (ROOT / file).exists()}
    assert sorted(f"{file}::{test}" for file, test in named if f"def {test}(" not in read.get(file, "")) == []


@pytest.mark.parametrize("page", PAGES)
def test_a_row_without_a_test_says_why(page: str) -> None:
    rows = _rows(page)
    assert len(rows) > 20
    assert [row for row in rows if len(row) != len(_COLUMNS)] == []
    assert [row for row in rows if not _NAMED.search(row[2]) and not row[2].startswith(_NOT_RUN)] == []
