"""docs/explanation/scale.md and its picture say what follows from the costs that were kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench.at_scale.costs import KEPT, read_costs
from bench.at_scale.page import BEGIN, PAGE, with_results
from bench.at_scale.results import Results, kept_results, results_of
from bench.at_scale.worlds import WORLDS
from docs.drawings.scale_picture import ALONE, NAME, curves, scale_picture

PICTURE = PAGE.parent / "pictures" / NAME
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def results() -> Results:
    """With the world before it in the place of the largest, which takes longer than all the others."""
    return results_of(read_costs(KEPT), worlds=(*WORLDS[:-1], WORLDS[-2]))


@pytest.mark.soak  # `make lint` asks the same of all generated pages
def test_page_and_picture_are_those_of_the_kept_costs() -> None:
    text, results = PAGE.read_text(encoding="utf-8"), kept_results()

    assert with_results(text, results) == text, "run make docs"
    assert scale_picture(results) == PICTURE.read_text(encoding="utf-8"), "run make docs"


def test_the_page_shows_the_picture() -> None:
    assert f"(pictures/{NAME})" in PAGE.read_text(encoding="utf-8")


def test_other_costs_make_another_page(results: Results) -> None:
    text = PAGE.read_text(encoding="utf-8")
    costs = replace(results.costs, restore=replace(results.costs.restore, mib_ms=99.0))

    assert "99.0 ms" in with_results(text, replace(results, costs=costs))


def test_a_page_without_its_marks_is_refused(results: Results) -> None:
    with pytest.raises(ValueError, match="unpack"):
        with_results(Path(__file__).read_text(encoding="utf-8").replace(BEGIN, ""), results)


def test_the_picture_has_a_curve_for_each_and_can_be_read_aloud(results: Results) -> None:
    root = ElementTree.fromstring(scale_picture(results))
    drawn = root.findall(f"{SVG}polyline")
    described = root.findtext(f"{SVG}desc") or ""

    assert len(drawn) == len(curves(results))
    assert all(len((each.get("points") or "").split()) == len(results.by_largest) for each in drawn)
    assert all(curve.name in described for curve in curves(results))


def test_the_largest_partition_bounds_a_restore_and_no_backup(results: Results) -> None:
    shown = {curve.name: curve.seconds for curve in curves(results)}
    restore, copied = shown["restore"], shown["backup, until all is copied"]

    assert all(of_all >= alone for of_all, alone in zip(restore, shown[ALONE], strict=True))
    assert restore[-1] > 3 * restore[0]
    assert max(copied) < 1.1 * min(copied)
