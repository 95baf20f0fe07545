"""The steps of the how-tos that no test runs: each command and option that one tells people to type must exist."""

from __future__ import annotations

import re
from pathlib import Path

from tests.unit.cli.test_hints import wrong_in

ROOT = Path(__file__).parents[3]
PAGES = sorted(ROOT.glob("docs/how-to/*.md"))
BLOCK = re.compile(r"^ *```sh\n(.*?)^ *```", re.DOTALL | re.MULTILINE)


def typed(page: Path) -> list[str]:
    """The lines that begin with our command, those that go on in the next one as one."""
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [line.strip() for line in lines if line.strip().startswith("offsite ")]


def test_what_a_page_says_can_be_typed() -> None:
    lines = [(page.stem, line) for page in PAGES for line in typed(page)]
    assert [(page, wrong) for page, line in lines for wrong in wrong_in(f"run {line}")] == []


def test_commands_are_found() -> None:
    metastore = typed(ROOT / "docs/how-to/metastore.md")
    assert [line.split()[2] for line in metastore[:2]] == ["backup", "status"]
    assert wrong_in(f"run {metastore[0]} --louder")
