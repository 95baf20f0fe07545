"""The proof of a restore as a page: it says what the result says, claims nothing that was not compared, and nothing in
a result can become markup, since anybody who can write into the repository can write a result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from offsite.model.errors import DamagedObject
from offsite.model.plain import plain
from offsite.repository.restores.record import RestoreOutcome, get_outcome
from offsite.restore.restore_report import restore_page
from offsite.restore.run import run_restore
from tests.fake_cluster.site import Site


@pytest.fixture
def restored(site: Site) -> tuple[dict[str, Any], RestoreOutcome]:
    site.source.make_topic("orders", partitions=2)
    site.source.write("orders", [b"a", b"b", b"c"])
    site.source.commit_group("billing", "orders", [1, 0])
    site.back_up("*")
    prepared = site.plan_restore(groups=["all"])
    result = run_restore(prepared, cluster=site.target.connected, runner=site.runner)
    outcome = get_outcome(site.repository.store, prepared.layout)
    assert outcome is not None
    return dict(cast("Mapping[str, Any]", plain(result))), outcome


def test_the_page_says_what_was_proven_with_all_digests(restored: tuple[dict[str, Any], RestoreOutcome]) -> None:
    page = restore_page(*restored, {"Run by": "ann@host"})
    assert "Proven: 3 records were restored and read back, equal to the backup." in page
    assert all(text in page for text in ("orders/0", "blake3:", "commit 1", "ann@host", "1 group, "))
    assert "http" not in page, "it needs nothing from elsewhere"


@pytest.mark.parametrize(
    ("verified", "said"), [(False, "Not proven: the restored records differ"), (None, "Restored, nothing proven: ")]
)
def test_nothing_is_claimed_that_was_not_proven(
    restored: tuple[dict[str, Any], RestoreOutcome], verified: bool | None, said: str
) -> None:
    page = restore_page({**restored[0], "verified": verified, "problem": "no records"}, None, {})
    assert said in page
    assert "Proven:" not in page


def test_names_are_no_markup(restored: tuple[dict[str, Any], RestoreOutcome]) -> None:
    result = restored[0]
    (topic,) = result["topics"].values()
    finding = {"source": "s", "topic": "<b>", "partition": -1, "kind": "<i>", "detail": "<u>"}
    hostile = {**result, "topics": {"<b>": topic}, "notes": ["<b>"], "findings": [finding], "skipped": [["<b>", "<i>"]]}
    page = restore_page(hostile, None, {"<b>": "<i>"})
    assert not {"<b>", "<i>", "<u>"} & set(page.replace(">", "> ").split())
    assert "&lt;b&gt;" in page


@pytest.mark.parametrize(
    "wrong",
    [
        {"records": "many"},
        {"records": -1},
        {"topics": []},
        {"topics": {"a": {}}},
        {"findings": [1]},
        {"consistency": "x"},
        {"verified": 1},
        {"notes": [{}]},
        {"groups": {"groups": None}},
        {"lacking": [{"topic": "a"}]},
    ],
)
def test_what_is_no_result_is_refused(
    restored: tuple[dict[str, Any], RestoreOutcome], wrong: Mapping[str, object]
) -> None:
    with pytest.raises(DamagedObject):
        restore_page({**restored[0], **wrong}, None, {})
    with pytest.raises(DamagedObject):
        restore_page({}, None, {})
