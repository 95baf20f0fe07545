"""The architecture page counts the files of the five ways, and each count must be that of its table."""

from __future__ import annotations

import re
from itertools import takewhile
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[3] / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")

_WAYS = PAGE.partition("## The five ways\n")[2].partition("### Where the evidence")[0]
_COUNTS, *_SECTIONS = _WAYS.split("\n### ")
COUNTED = [int(count) for count in re.findall(r"^\| .* \| (\d+) \|", _COUNTS, re.MULTILINE)]


@pytest.mark.parametrize(("count", "section"), zip(COUNTED, _SECTIONS, strict=True))
def test_a_way_passes_as_many_files_as_its_table_names(count: int, section: str) -> None:
    lines = section.partition("\n| step |")[2].splitlines()[2:]
    places = [line.split(" | ")[1] for line in takewhile(lambda line: line.startswith("|"), lines)]
    assert len({path for place in places for path in re.findall(r"`([a-z_0-9/]+\.py)`", place)}) == count
