"""The table of the seed names tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "explanation" / "declared.md"
_NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")

NAMED = sorted(set(_NAMED.findall(PAGE.read_text(encoding="utf-8"))))


@pytest.mark.parametrize(("file", "test"), NAMED)
def test_a_test_that_is_named_is_there(file: str, test: str) -> None:
    assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8")


def test_the_page_names_tests() -> None:
    assert len(NAMED) > 20
