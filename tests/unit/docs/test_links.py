from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("bench/*.md")])

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_inside_leads_somewhere(page: Path) -> None:
    for link in _LINK.findall(page.read_text(encoding="utf-8")):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in _anchors(target), link


@pytest.mark.parametrize("folder", ["docs", "docs/how-to", "docs/explanation", "docs/reference", "docs/change"])
def test_the_map_leads_to_every_page(folder: str) -> None:
    shown = (ROOT / "docs/README.md").read_text(encoding="utf-8")
    pages = [page for page in (ROOT / folder).glob("*.md") if page.name != "README.md"]

    assert [page.name for page in pages if f"({page.relative_to(ROOT / 'docs')})" not in shown] == []


def test_every_decision_is_listed() -> None:
    shown = (ROOT / "docs/decisions/README.md").read_text(encoding="utf-8")

    assert [page.name for page in ROOT.glob("docs/decisions/0*.md") if page.name not in shown] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_paths_of_the_source_that_pages_name_are_there(page: Path) -> None:
    named = re.findall(r"`((?:src|tests|docs|bench)/[\w/.-]+\.\w+)`", page.read_text(encoding="utf-8"))

    assert [path for path in named if not (ROOT / path).exists() and "results/" not in path] == []


def _anchors(page: Path) -> set[str]:
    headings = _HEADING.findall(page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
