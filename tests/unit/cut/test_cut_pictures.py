"""The pictures of docs/explanation/cut.md are what the code makes of a recorded history, and show what it says."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from docs.drawings.cut_pictures import FIRST, LEFT_OUT, OPEN, TORN, Shown, cut_pictures
from docs.drawings.history import load_history
from offsite.cut.episodes import window_of
from offsite.cut.window import SpanOutcome
from tests.cut_judge import violations

PICTURES = Path(__file__).parents[3] / "docs" / "explanation" / "pictures"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def shown() -> Shown:
    return Shown(load_history())


def test_the_pictures_are_those_of_the_page(shown: Shown) -> None:
    drawn = cut_pictures(shown.history)
    stored = {path.name: path.read_text(encoding="utf-8") for path in PICTURES.glob("cut-*.svg")}
    assert stored == drawn, "run make docs"
    page = (PICTURES.parent / "cut.md").read_text(encoding="utf-8")
    assert all(f"(pictures/{name})" in page for name in drawn)


def test_each_can_be_read_aloud(shown: Shown) -> None:
    for text in cut_pictures(shown.history).values():
        root = ElementTree.fromstring(text)
        title, description = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
        assert title is not None
        assert description is not None
        assert root.get("role") == "img"
        assert root.get("aria-labelledby") == f"{title.get('id')} {description.get('id')}"
        assert len(description.text or "") > 100


def test_the_ends_as_copied_broke_the_application(shown: Shown) -> None:
    assert any("made but not read" in fault for fault in shown.history.faults)


def test_the_first_reading_has_half_of_the_markers_of_a_transaction(shown: Shown) -> None:
    ends = shown.ends(FIRST)
    below = {
        name: shown.last_ended(TORN, shown.key(name))[1] < ends[shown.key(name)]
        for name in ("receipts/0", "__consumer_offsets/1")
    }
    assert below == {"receipts/0": False, "__consumer_offsets/1": True}
    assert FIRST not in shown.clean[TORN]
    assert shown.clean[TORN]


def test_no_two_commits_lie_between_the_offsets_of_the_first_picture(shown: Shown) -> None:
    """The commit of the torn transaction is the last but one of its producer: the one between its record and marker."""
    first, marker = shown.last_ended(TORN, shown.key("__consumer_offsets/1"))
    assert [each.position for each in shown.commits(TORN) if first <= each.position < marker] == [
        shown.commits(TORN)[-2].position
    ]


def test_a_transaction_with_all_of_its_markers_is_left_out_and_the_cut_holds(shown: Shown) -> None:
    left_out = {each.span.name: each.span for each in shown.cut.left_out}
    seen = [written.marker for written in left_out[LEFT_OUT].written.values()]
    assert len(seen) == 3
    assert None not in seen
    assert set(left_out[LEFT_OUT].written) == set(shown.cut.markers_left_out())
    assert left_out[OPEN].outcome is SpanOutcome.OPEN
    assert not shown.cut.refusals
    window = window_of(shown.history.evidence)
    assert list(violations(shown.cut.ends, left_out.values(), window)) == []
