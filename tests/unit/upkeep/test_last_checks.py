"""What a repository remembers of its checks, and what `status` makes of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from offsite.cli.app import app
from offsite.follow.watch import read_repository_view
from offsite.model.errors import StoreDenied
from offsite.model.ids import dated_id
from offsite.model.units import format_time
from offsite.overview.status import BackupStatus, read_status
from offsite.overview.status_page import describe_checks
from offsite.repository.backup import Backup
from offsite.repository.repository import Repository
from offsite.repository.snapshots.check_records import (
    VerifyRecord,
    decode_drill_record,
    last_verify_record,
    put_drill_report,
    put_verify_record,
)
from offsite.stores.posix_store import PosixStore, open_folder
from offsite.upkeep.verification.last_checks import CheckMemory, LastChecks, read_last_checks, remember_check
from offsite.upkeep.verification.run import verify_quick
from tests.backups import new_backup, run_once
from tests.faulty_store import FaultyStore

H, DAY = 3_600_000, 86_400_000
ATTENTION, DAMAGED = 3, 13


@pytest.fixture
def store(tmp_path: Path) -> PosixStore:
    return open_folder(tmp_path / "repository")


@pytest.fixture
def backup(store: PosixStore) -> Backup:
    made = new_backup(store)
    run_once(made)
    return made


def records(backup: Backup) -> list[str]:
    return [info.key for info in backup.store.list(backup.layout.verifies_prefix)]


def remember(
    backup: Backup, *, depth: str = "quick", ago_ms: int = 0, damaged: int = 0, made_here: bool = True, by: str = ""
) -> VerifyRecord:
    record = VerifyRecord(
        depth=depth,
        verified_at_ms=backup.store.now_ms() - ago_ms,
        ok=not damaged,
        damaged=damaged,
        commit=1,
        head_hash="0" * 64,
        by=by,
    )
    put_verify_record(backup.store, backup.layout, record)
    if made_here:
        CheckMemory(backup=backup).note_check(record)
    return record


def drill(backup: Backup, name: str, *, ended: str, proven: bool | None, made_here: bool = True) -> None:
    kept = put_drill_report(backup.store, backup.layout, name, {"ended": ended, "proven": proven, "by": "me"}, "<p>")
    if made_here:
        CheckMemory(backup=backup).note_drill(decode_drill_record(kept["json"], backup.layout.drill_key(name, "json")))


def last(backup: Backup) -> LastChecks:
    return read_last_checks(backup, now_ms=backup.store.now_ms())


def status(backup: Backup) -> BackupStatus:
    (found,) = read_status(Repository.open(backup.store)).backups
    return found


def run(backup: Backup, *command: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, [*command, "--repo", str(backup.store.url)])
    return done.exit_code, done.stdout


def test_a_backup_of_an_earlier_version_was_never_checked(backup: Backup) -> None:
    assert last(backup) == LastChecks()
    code, told = run(backup, "status")
    assert code == 0
    assert "last verify: never on this machine\n" in told
    assert "last drill: never on this machine\n" in told


def test_verify_keeps_a_record_that_status_tells(backup: Backup) -> None:
    assert run(backup, "verify", "--backup", "b")[0] == 0
    (record,) = last(backup).verified
    head = backup.state()
    assert (record.depth, record.ok, record.damaged) == ("quick", True, 0)
    assert (record.commit, record.head_hash) == (1, head.head_hash)
    assert 0 <= backup.store.now_ms() - record.verified_at_ms < 60_000
    told = run(backup, "status")[1]
    assert f"last verify: quick {format_time(record.verified_at_ms)} ok\n" in told
    (listed,) = json.loads(run(backup, "status", "-o", "json")[1])["backups"]
    assert listed["checks"]["verified"][0]["verified_at_ms"] == record.verified_at_ms


def test_a_check_that_found_damage_is_remembered_until_a_later_one_finds_none(backup: Backup) -> None:
    key = next(iter(backup.state().all_segments())).key
    data = backup.store.get(key)
    assert data is not None
    backup.store.delete(key)
    assert run(backup, "verify", "--backup", "b")[0] == DAMAGED
    found = status(backup)
    assert found.checks is not None
    assert [(each.ok, each.damaged) for each in found.checks.verified] == [(False, 1)]
    assert not found.safe
    assert ["check of" in problem and "found 1 object damaged" in problem for problem in found.problems] == [True]
    code, told = run(backup, "status")
    assert (code, "1 DAMAGED" in told) == (ATTENTION, True)
    backup.store.put_if_absent(key, data)
    assert run(backup, "verify", "--backup", "b")[0] == 0
    assert status(backup).safe


def test_of_two_checks_in_one_second_the_later_one_counts(backup: Backup) -> None:
    for number in range(6):
        record = VerifyRecord(
            depth="quick", verified_at_ms=5_000 + number, ok=True, damaged=number, commit=1, head_hash=""
        )
        put_verify_record(backup.store, backup.layout, record)
    last = last_verify_record(backup.store, backup.layout, "quick", now_ms=6_000)
    assert last is not None
    assert last.damaged == 5


@pytest.mark.parametrize(
    ("bad", "good", "safe"),
    [("quick", "deep", True), ("deep", "quick", False), ("deep", "deep", True), ("quick", "quick", True)],
)
def test_a_quick_check_does_not_outdo_a_deep_one(backup: Backup, bad: str, good: str, safe: bool) -> None:
    remember(backup, depth=bad, ago_ms=2 * H, damaged=3)
    assert not status(backup).safe
    remember(backup, depth=good)
    assert status(backup).safe is safe
    assert read_repository_view(backup, backup.state(), now_ms=backup.store.now_ms()).damaged == (0 if safe else 3)


def test_the_same_news_within_an_hour_is_written_once(backup: Backup) -> None:
    result = verify_quick(backup)
    assert [remember_check(backup, result) for _ in range(3)] == [True] * 3
    assert len(records(backup)) == 1
    assert remember_check(backup, replace(result, ok=False, missing_head=("gone",)))
    assert len(records(backup)) == 2
    assert remember_check(backup, replace(result, depth="deep"))
    assert remember_check(backup, replace(result, depth="deep"))
    assert len(records(backup)) == 4


def test_an_older_record_of_the_same_is_no_reason_to_keep_none(backup: Backup) -> None:
    remember(backup, ago_ms=H + 60_000)
    assert remember_check(backup, verify_quick(backup))
    assert len(records(backup)) == 2


def test_the_last_of_many_is_found_however_old_it_is(backup: Backup) -> None:
    old = remember(backup, depth="deep", ago_ms=400 * DAY)
    for days in (300, 200, 41, 39, 5):
        new = remember(backup, ago_ms=days * DAY)
    assert [each.verified_at_ms for each in last(backup).verified] == [new.verified_at_ms, old.verified_at_ms]


def test_who_may_only_read_checks_all_the_same(backup: Backup, store: PosixStore) -> None:
    class ReadOnly(FaultyStore):
        def now_ms(self) -> int:
            raise StoreDenied("read only")

        def put_if_absent(self, *_: object) -> None:  # type: ignore[override]
            raise StoreDenied("read only")

    reader = replace(backup, store=ReadOnly(store))
    assert not remember_check(reader, verify_quick(reader))
    assert records(backup) == []
    assert [each.ok for each in last(backup).verified] == [True]


def damage(backup: Backup, key: str, data: bytes) -> None:
    backup.store.delete(key)
    backup.store.put_if_absent(key, data)


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"format":1,"digest":"x"}'])
def test_a_record_that_cannot_be_read_is_noted_and_replaced(backup: Backup, data: bytes) -> None:
    remember(backup, made_here=False)
    drill(backup, "20260101-000000-0123abcd", ended="2026-01-01T00:00:10.000Z", proven=True, made_here=False)
    damage(backup, records(backup)[0], data)
    damage(backup, backup.layout.drill_key("20260101-000000-0123abcd", "json"), data)
    found = status(backup)
    assert found.safe
    assert found.checks is not None
    assert (found.checks.claimed, found.checks.claimed_drill, len(found.checks.problems)) == ((), None, 2)
    assert set(found.checks.problems) <= set(found.notes)
    assert remember_check(backup, verify_quick(backup))
    assert len(records(backup)) == 2


def test_the_last_drill_and_the_last_proof_are_told(backup: Backup) -> None:
    drill(backup, "20260101-000000-0123abcd", ended="2026-01-01T00:00:10.000Z", proven=True)
    found = last(backup)
    assert found.drill is not None
    assert (found.drill.proven, found.proven_ms) == (True, 1_767_225_610_000)
    drill(backup, "20260102-000000-0123abcd", ended="2026-01-02T00:00:10.000Z", proven=None)
    drill(backup, "20260103-000000-0123abcd", ended="2026-01-03T00:00:10.000Z", proven=False)
    found = last(backup)
    assert found.drill is not None
    assert (found.drill.drill, found.drill.proven) == ("20260103-000000-0123abcd", False)
    assert found.proven_ms == 1_767_225_610_000
    told = run(backup, "status")[1]
    assert "last drill: 2026-01-03T00:00:10.000Z NOT PROVEN, last proven 2026-01-01T00:00:10.000Z\n" in told
    assert read_repository_view(backup, backup.state(), now_ms=0).drilled_ms == 1_767_225_610_000


def test_a_report_of_an_earlier_version_counts(backup: Backup) -> None:
    report = json.dumps({"drill": "x", "ended": "2026-01-01T00:00:10.000Z", "proven": True}, indent=2).encode()
    backup.store.put_if_absent(backup.layout.drill_key("20260101-000000-0123abcd", "json"), report)
    backup.store.put_if_absent(backup.layout.drill_key("20260102-000000-killed00", "html"), b"<p>")
    assert last(backup).claimed_ms == 1_767_225_610_000


def test_drills_of_the_repository_are_told_beside_those_whose_records_lie_elsewhere(
    backup: Backup, tmp_path: Path
) -> None:
    (tmp_path / "records").mkdir()
    both = replace(backup, records_at=open_folder(tmp_path / "records"))
    drill(
        replace(both, store=both.record_store),
        "20260101-000000-a",
        ended="2026-01-01T00:00:10.000Z",
        proven=True,
        made_here=False,
    )
    drill(backup, "20260102-000000-a", ended="2026-01-02T00:00:10.000Z", proven=False, made_here=False)
    found = last(both)
    assert found.claimed_drill is not None
    assert (found.claimed_drill.proven, found.claimed_ms) == (False, 1_767_225_610_000)


FAR = "99990101-000000-0123abcd"


def test_what_this_installation_did_not_check_is_claimed_and_clears_nothing(backup: Backup) -> None:
    """As a create-only writer: "deep ok" and "proven" after a check of ours that found damage."""
    mine = remember(backup, depth="deep", ago_ms=2 * H, damaged=1)
    forged = remember(backup, depth="deep", by="nightly@ci\x1b[2J", made_here=False)
    drill(backup, "20260103-000000-0123abcd", ended="2026-01-03T00:00:10.000Z", proven=True, made_here=False)
    found = status(backup)
    assert found.checks is not None
    assert (found.safe, found.checks.verified, found.checks.claimed) == (False, (mine,), (forged,))
    assert (found.checks.drill, found.checks.proven_ms) == (None, -1)
    told = run(backup, "status")[1]
    assert "deep" in told
    assert "1 DAMAGED" in told
    assert "claimed by nightly@ci" in told
    assert "\x1b" not in told
    assert "last drill: never on this machine" in told
    seen = read_repository_view(backup, backup.state(), now_ms=backup.store.now_ms())
    assert (seen.verified_ms, seen.damaged, seen.drilled_ms) == ({"deep": mine.verified_at_ms}, 1, -1)
    assert (seen.claimed_ms, seen.claimed_drill_ms) == ({"deep": forged.verified_at_ms}, 1_767_398_410_000)
    shown = dict(describe_checks(found.checks))
    assert shown["Last deep check"].endswith("DAMAGE")
    assert "not made on this machine" in shown["Claimed deep check"]
    assert shown["Last proven by a drill"] == "never on this machine"


def test_a_claim_of_damage_counts_until_a_deep_check_of_ours_finds_none(backup: Backup) -> None:
    remember(backup, ago_ms=H, damaged=2, by="other", made_here=False)
    (problem,) = status(backup).problems
    assert "as other claims" in problem
    remember(backup, depth="deep", made_here=False)
    assert not status(backup).safe, "a claim clears no claim"
    remember(backup, depth="deep")
    assert status(backup).safe


def test_a_claim_dated_ahead_hides_nothing_and_stays_no_problem_for_ever(backup: Backup) -> None:
    honest = remember(backup, ago_ms=H, made_here=False)
    remember(backup, ago_ms=-400 * DAY, damaged=7, made_here=False)
    backup.store.put_if_absent(backup.layout.verify_key("quick", FAR), b"junk")
    backup.store.put_if_absent(backup.layout.drill_key(FAR, "json"), b"junk")
    found = last(backup)
    assert (found.claimed, found.problems) == ((honest,), ())


def test_a_claim_that_is_older_than_what_was_done_here_is_not_told(backup: Backup) -> None:
    remember(backup, ago_ms=H, made_here=False)
    mine = remember(backup)
    assert (last(backup).verified, last(backup).claimed) == ((mine,), ())


def test_a_record_that_says_another_time_than_its_name_is_damaged(backup: Backup) -> None:
    record = remember(backup, ago_ms=50 * DAY, made_here=False)
    (key,) = records(backup)
    data = backup.store.get(key)
    assert data is not None
    backup.store.put_if_absent(backup.layout.verify_key("quick", dated_id(record.verified_at_ms + 40 * DAY)), data)
    assert "the time in its name" in last(backup).problems[0]


def test_few_reports_of_drills_are_read_however_many_there_are(backup: Backup) -> None:
    for number in range(40):
        name = f"20260101-0000{number:02}-0123abcd"
        drill(backup, name, ended="2026-01-01T00:00:10.000Z", proven=False, made_here=False)
    reads: list[str] = []

    class Counted(FaultyStore):
        def get(self, key: str) -> bytes | None:
            reads.append(key)
            return super().get(key)

    read_last_checks(replace(backup, store=Counted(backup.store)), now_ms=backup.store.now_ms())
    assert len([key for key in reads if "/drills/" in key]) == 16


def test_a_memory_that_is_none_is_no_memory(backup: Backup) -> None:
    mine = remember(backup)
    folder = CheckMemory(backup=backup).facts.folder()
    for data in (b"junk", b'{"format":1}', b"[]"):
        (folder / "quick").write_bytes(data)
        assert (last(backup).verified, last(backup).claimed) == ((), (mine,))
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("harm", [lambda data: data[:-10], lambda data: data.replace(b'"ok":true', b'"ok":null')])
def test_verify_deep_reads_the_records(backup: Backup, harm: Callable[[bytes], bytes]) -> None:
    from offsite.upkeep.verification.run import check_records

    remember(backup)
    assert check_records(backup).damaged == check_records(backup).unvouched == ()
    (key,) = records(backup)
    data = backup.store.get(key)
    assert data is not None
    damage(backup, key, harm(data))
    assert [each.key for each in check_records(backup).damaged] == [key]
