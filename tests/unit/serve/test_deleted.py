"""The page of what was deleted: by whom, by which rule, and whether it can still be restored."""

from __future__ import annotations

import re

import pytest
from starlette.testclient import TestClient

from offsite.overview.source_watch import SourceWatch
from offsite.repository.snapshots.audit_record import (
    LINES_PER_OBJECT,
    OBJECT,
    POINTS,
    Deletion,
    note_deletions,
    read_newest_audit,
)
from offsite.upkeep.retention import deleted as deleted_module
from tests.fake_cluster.site import Site
from tests.unit.serve.test_pages import BASE, shown
from tests.unit.serve.test_source import lose, watch
from tests.unit.serve.test_v1 import BASE as API

__all__ = ["watch"]
PAGE = f"{BASE}/deleted"
HOSTILE = "<b>commit 1</b>"


def words_of(client: TestClient) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", shown(client, PAGE)))


def note(site: Site, *deletions: Deletion, writer: str = "") -> None:
    note_deletions(site.backup.store, site.backup.layout, deletions, by="retention", commit=1, writer=writer)


def test_nothing_was_deleted(client: TestClient) -> None:
    assert "Nothing was deleted from this backup." in words_of(client)


def test_what_retention_deleted_is_told_with_time_rule_and_process(client: TestClient, site: Site) -> None:
    for text in (b"c", b"d"):
        site.source.write("orders", [text])
        site.back_up()
    planned = client.post(f"{API}/retention/plan", json={"keep_hourly": 1}).json()
    confirmed = {"confirmation": planned["confirmation"], "now_ms": planned["plan"]["now_ms"]}
    assert client.post(f"{API}/retention", json={"keep_hourly": 1, **confirmed}).status_code == 200
    words = words_of(client)
    assert "commits 1 to 2" in words
    assert re.search("retention: not kept by hourly 1 process [0-9]+ of ", words)
    assert "not as of these restore points; the records that a kept restore point holds are" in words


def test_a_deletion_that_was_not_made_is_not_told_as_one(client: TestClient, site: Site) -> None:
    note(site, Deletion(kind=POINTS, what="commit 1", rule="daily 1"), writer="somebody")
    assert "unknown: no commit shows that it was deleted" in words_of(client)
    site.source.write("orders", [b"c"])
    site.back_up()
    assert "yes: it was not deleted" in words_of(client)


def test_one_run_is_one_row_and_words_of_the_repository_stay_words(client: TestClient, site: Site) -> None:
    note(site, *(Deletion(kind=OBJECT, what=f"{HOSTILE}{number}", rule="x", bytes=512) for number in range(7)))
    assert HOSTILE not in shown(client, PAGE)
    words = words_of(client)
    assert "and 2 more (3.5 KiB)" in words
    assert words.count("no restore point needed these objects") == 1


def test_older_deletions_are_left_out_and_that_is_said(
    client: TestClient, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deleted_module, "_LINES_READ", 2)
    for name in ("first", "second", "third"):
        note(site, Deletion(kind=OBJECT, what=name, rule=name))
    lines, has_older = read_newest_audit(site.backup.store, site.backup.layout, most=2)
    assert (len(lines), has_older) == (2, True)
    assert "Older ones are not listed here: offsite retention log --backup=" in words_of(client)


def test_a_line_that_cannot_be_read_hides_no_other(client: TestClient, site: Site) -> None:
    note(site, Deletion(kind=OBJECT, what="whole", rule="x"))
    site.backup.store.put_if_absent(site.backup.layout.audit_key(1, "0" * 8), b"junk\n")
    words = words_of(client)
    assert "A line cannot be read" in words
    assert "whole" in words


@pytest.mark.parametrize("lines", [200, LINES_PER_OBJECT + 1])
def test_lines_that_nobody_can_read_are_not_nothing(client: TestClient, site: Site, lines: int) -> None:
    """Whoever may write could hide deletions behind them, or keep a coordinator busy for an hour."""
    note(site, Deletion(kind=OBJECT, what="whole", rule="x"))
    site.backup.store.put_if_absent(site.backup.layout.audit_key(9, "0" * 8), b"\n" * lines)
    found_lines, _ = read_newest_audit(site.backup.store, site.backup.layout, most=1)
    assert len(found_lines) == (lines if lines == 200 else 1)
    words = words_of(client)
    assert "Nothing was deleted" not in words
    assert ("not known what was deleted" in words) is ("whole" not in words) is (lines == 200)


def test_what_the_source_lost_stands_first_with_the_way_back(
    client: TestClient, site: Site, watch: SourceWatch
) -> None:
    lose(site, watch)
    words = words_of(client)
    assert words.index("gone at the source") < words.index("Nothing was deleted from this backup.")
    assert "Restore orders" in words


@pytest.mark.parametrize("path", [f"{BASE}/retention", f"{BASE}/points", BASE])
def test_pages_where_one_would_look_lead_there(client: TestClient, path: str) -> None:
    assert f'href="{PAGE}"' in shown(client, path)


def test_a_preview_of_retention_is_not_read_as_a_deletion(client: TestClient) -> None:
    text = shown(client, f"{BASE}/retention")
    assert "would be deleted, 1 kept" in text
    assert "Nothing is deleted by this page." in text
