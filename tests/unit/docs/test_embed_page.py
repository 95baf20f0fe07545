"""The code of the page on embedding is that of the example: what it shows is what the tests run."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "how-to" / "embed.md"
BLOCKS = re.findall(r"```python\n# (\S+)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def without_indents(text: str) -> str:
    """The same lines, however deep they lie in it."""
    return re.sub(r"^ +", "", text, flags=re.MULTILINE)


@pytest.mark.parametrize(("file", "code"), BLOCKS, ids=[f"{number} {file}" for number, (file, _) in enumerate(BLOCKS)])
def test_each_block_is_cut_out_of_the_file_that_it_names(file: str, code: str) -> None:
    assert without_indents(dedent(code)) in without_indents((ROOT / file).read_text(encoding="utf-8"))


def test_all_code_of_the_page_names_its_file() -> None:
    assert len(BLOCKS) == PAGE.read_text(encoding="utf-8").count("```python") > 0
