"""Pages that tell where to go must name files that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "src" / "offsite"
PAGES = sorted([*ROOT.glob("docs/change/*.md"), *ROOT.glob("docs/explanation/*.md"), ROOT / "README.md"])

_PATH = re.compile(r"`([a-z_0-9-]+(?:/[a-z_0-9*-]+)*(?:\.py|/))`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_that_a_page_names_is_there(page: Path) -> None:
    named = _PATH.findall(page.read_text(encoding="utf-8"))
    assert [path for path in named if not _is_there(path)] == []


def _is_there(path: str) -> bool:
    """From the root, from the package, or a name that is in one of its rooms."""
    return any(any(place.glob(path)) for place in (ROOT, SOURCE)) or ("/" not in path and any(SOURCE.rglob(path)))
