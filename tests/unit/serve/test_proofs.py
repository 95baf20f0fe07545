"""The page of proofs: which restore points a drill proved, and what is only claimed."""

from __future__ import annotations

import json
import re
from typing import Any

from starlette.testclient import TestClient

from offsite.model.untrusted.bounded_json import with_digest
from offsite.repository.json_form import FORMAT
from offsite.repository.snapshots.check_records import decode_drill_record, put_drill_report
from offsite.upkeep.verification.last_checks import CheckMemory
from tests.fake_cluster.site import Site
from tests.unit.serve.test_pages import BASE, shown

PAGE = f"{BASE}/proofs"
REPORT: dict[str, Any] = {
    "ended": "2026-01-01T04:16:42.189Z",
    "proven": True,
    "problem": "",
    "commit": 41,
    "committed": "2026-01-01T04:15:42.189Z",
    "records": 36_261,
    "topics": [{}, {}],
    "place": "a sandbox",
    "by": "<b>ann</b>",
}


def keep(site: Site, drill: str, *, is_own: bool = False, **fields: Any) -> None:
    backup = site.backup
    files = put_drill_report(backup.store, backup.layout, drill, REPORT | fields, "")
    if is_own:
        key = backup.layout.drill_key(drill, "json")
        CheckMemory(backup=backup).note_drill(decode_drill_record(files["json"], key))


def words_of(client: TestClient) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", shown(client, PAGE)))


def test_no_drill_proved_anything_yet(client: TestClient) -> None:
    assert "No drill of this backup is recorded: nothing was proven yet." in words_of(client)


def test_a_proof_names_its_restore_point_and_its_amount(client: TestClient, site: Site) -> None:
    keep(site, "20260101-041642-f0d8a69d", is_own=True)
    words = words_of(client)
    assert "proven" in words
    assert "commit 41 made 2026-01-01T04:15:42.189Z 36,261 2 a sandbox" in words
    assert "drills/20260101-041642-f0d8a69d/report.html" in words
    assert '</span> <span class="soft">as its report claims' not in shown(client, PAGE)
    assert "<b>ann</b>" not in shown(client, PAGE)


def test_what_a_changed_report_says_of_our_own_drill_is_told_as_its_word(client: TestClient, site: Site) -> None:
    drill, backup = "20260101-041642-f0d8a69d", site.backup
    keep(site, drill, is_own=True)
    key = backup.layout.drill_key(drill, "json")
    forged = with_digest((json.dumps({**REPORT, "commit": 99, "format": FORMAT}) + "\n").encode())
    backup.store.put_overwrite(key, forged)
    words = words_of(client)
    assert "commit 99" in words
    assert "are what the reports say in any case: whoever may write to the repository can change them" in words


def test_what_others_claim_and_what_failed_is_told_as_that(client: TestClient, site: Site) -> None:
    keep(site, "20260101-041642-f0d8a69d", proven=False, problem="orders/0 differs")
    keep(site, "20260102-041642-f0d8a69d", proven=None)
    words = words_of(client)
    assert "not proven as its report claims orders/0 differs" in words
    assert words.index("nothing compared") < words.index("not proven as")


def test_a_remembered_drill_with_another_result_is_a_claim(client: TestClient, site: Site) -> None:
    drill = "20260101-041642-f0d8a69d"
    keep(site, drill, is_own=True, proven=False)
    site.backup.store.delete(site.backup.layout.drill_key(drill, "json"))
    keep(site, drill)
    assert "proven as its report claims" in words_of(client)


def test_a_report_that_cannot_be_read_hides_no_other(client: TestClient, site: Site) -> None:
    keep(site, "20260101-041642-f0d8a69d")
    site.backup.store.put_if_absent(site.backup.layout.drill_key("20260102-041642-f0d8a69d", "json"), b"junk")
    words = words_of(client)
    assert "cannot be read" in words
    assert "commit 41" in words


def test_older_reports_are_counted(client: TestClient, site: Site) -> None:
    for day in range(1, 8):
        keep(site, f"2026010{day}-041642-f0d8a69d")
    assert "and 2 older reports" in words_of(client)


def test_the_first_page_leads_there(client: TestClient) -> None:
    text = shown(client, "/")
    assert f'href="{PAGE}">Proofs of' in text
    assert "last proven by a drill: never" in text
