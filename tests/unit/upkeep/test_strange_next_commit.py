"""A next commit that this offsite cannot use: whoever may create objects can put one, of a newer format or junk."""

from __future__ import annotations

from typing import Any

import pytest

from offsite.groups.report import show_groups
from offsite.model.errors import DamagedCommit, FormatTooNew, NoSuchRestorePoint, OffsiteError
from offsite.model.selection import ALL_GROUPS
from offsite.overview.backup_history import read_history
from offsite.overview.contents import list_backups, show_backup
from offsite.overview.status import read_status
from offsite.overview.status_page import glance
from offsite.points.restore_point import PointRequest
from offsite.repository.catalog import Catalog
from offsite.repository.commit import CommitChanges, ExpiredRange
from offsite.repository.heads import RememberedHead
from offsite.repository.json_form import encode_object
from offsite.repository.repository import Repository
from offsite.serve.site import StateCache
from offsite.table.search import RecordsRequest, plan_records, raw_values
from offsite.upkeep.retention.pins import pin_point
from offsite.upkeep.verification.history import check_history
from offsite.upkeep.verification.last_checks import read_last_checks, remember_check
from offsite.upkeep.verification.run import VerifyVerdict, verify_deep, verify_quick
from tests.backups import append_unchecked
from tests.fake_cluster.site import BACKUP, Site

VALUES = [b"1", b"2", b"3"]


@pytest.fixture
def backed_up(site: Site) -> Site:
    """Two commits."""
    site.source.make_topic("orders")
    for _ in range(2):
        site.source.write("orders", VALUES)
        site.back_up("orders")
    return site


def put_next(site: Site, data: bytes, seq: int = 3) -> None:
    site.repository.store.put_if_absent(site.backup.layout.commit_key(seq), data)


def newer(**fields: Any) -> bytes:
    return encode_object({"format": 99, "seq": 3, **fields})


@pytest.fixture
def outdated(backed_up: Site) -> Site:
    put_next(backed_up, newer())
    return backed_up


def read(site: Site, **point: Any) -> list[bytes]:
    plan = plan_records(site.backup, RecordsRequest(point=PointRequest(**point)))
    return list(raw_values(plan))


def test_an_older_offsite_does_not_guess_and_says_what_can_be_read(outdated: Site) -> None:
    for act in (outdated.plan_restore, lambda: read(outdated), outdated.back_up):
        with pytest.raises(FormatTooNew) as error:
            act()
        assert "format 99" in error.value.message
    with pytest.raises(FormatTooNew, match="format 99") as error:
        outdated.plan_restore()
    assert "--commit 2" in error.value.hint


def test_a_named_point_at_or_below_the_last_readable_commit_is_restored_and_told(outdated: Site) -> None:
    told: list[str] = []
    site = outdated
    repository = Repository.open(site.repository.store, on_damage=told.append)
    plan = plan_records(repository.backup(BACKUP), RecordsRequest(point=PointRequest(commit=2)))
    assert len(list(raw_values(plan))) == 6
    assert "can be used only up to commit" in told[0]
    assert "may have deleted data" in told[0]
    assert len(read(site, commit=1)) == 3
    assert site.restore(commit=2).verified
    assert len(site.target.values("orders")) == 6


@pytest.mark.parametrize("commit", [3, 4])
def test_what_is_behind_it_is_refused_even_when_named(outdated: Site, commit: int) -> None:
    with pytest.raises(FormatTooNew):
        outdated.plan_restore(commit=commit)


def test_a_restore_that_was_begun_goes_on_with_its_own_point(backed_up: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = backed_up.plan_restore()
    monkeypatch.setattr("offsite.restore.plan._unfinished", lambda *_: begun.record)
    put_next(backed_up, newer())
    again = backed_up.plan_restore()
    assert (again.resumes, again.point.state.seq) == (True, 2)


def test_overviews_tell_it_as_a_problem_and_show_what_can_be_read(outdated: Site) -> None:
    (status,) = read_status(outdated.repository).backups
    assert (status.safe, status.head_commit, status.default_commit) == (False, 2, 2)
    assert any("format 99" in each for each in status.problems)
    (listed,) = list_backups(outdated.repository).backups
    assert (listed.records, "format 99" in listed.problem) == (6, True)
    assert show_backup(outdated.backup).summary == listed
    assert glance(outdated.backup, read_history(outdated.backup)).facts["Holes"] == "none"
    assert show_groups(outdated.backup, groups=ALL_GROUPS, commit=2).commit == 2


@pytest.mark.parametrize("deep", [False, True])
def test_a_check_looks_at_all_that_can_be_read_and_says_what_cannot(outdated: Site, *, deep: bool) -> None:
    result = verify_deep(outdated.backup, outdated.runner) if deep else verify_quick(outdated.backup)
    assert (result.verdict, result.head_commit, result.records) == (VerifyVerdict.DAMAGED, 2, 6)
    assert [(each.first_commit, each.is_newer) for each in result.damaged_commits] == [(3, True)]
    assert not remember_check(outdated.backup, result), "what was not judged is no damage that was found"
    assert not read_last_checks(outdated.backup, now_ms=outdated.backup.store.now_ms()).verified


def test_a_commit_behind_a_catalog_does_not_hide_the_catalog_s_own(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("offsite.repository.catalog.COMMITS_PER_CATALOG", 2)
    site.source.make_topic("orders")
    for _ in range(4):
        site.source.write("orders", VALUES)
        site.back_up("orders")
    put_next(site, newer(seq=5), seq=5)
    assert len(read(site, commit=4)) == 12
    assert len(read(site, commit=1)) == 3


@pytest.mark.parametrize("data", [newer(), b"junk"])
def test_pages_fold_once_what_cannot_be_read_to_its_end(
    backed_up: Site, monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    put_next(backed_up, data)
    folded: list[int] = []
    fold = Catalog.sound_state

    def counted(catalog: Catalog) -> object:
        folded.append(1)
        return fold(catalog)

    monkeypatch.setattr(Catalog, "sound_state", counted)
    seen = StateCache().of(backed_up.backup)
    assert [seen.readable_state().seq for _ in range(3)] == [2, 2, 2]
    assert len(folded) == 1
    with pytest.raises(OffsiteError):
        seen.state()
    backed_up.repository.store.delete(backed_up.backup.layout.commit_key(3))
    backed_up.source.write("orders", VALUES)
    backed_up.back_up()
    assert seen.state().seq == 3


def test_a_next_commit_that_names_another_hash_takes_nothing_from_the_one_before(backed_up: Site) -> None:
    """Commit 2 has a digest of its own: the stranger is the one that does not follow."""
    fields = {"format": 1, "backup": BACKUP, "seq": 3, "previous": "0" * 64, "writer": "w"}
    figures = {"committed_at_ms": 0, "records": 0, "raw_bytes": 0, "stored_bytes": 0}
    put_next(backed_up, encode_object({**fields, **figures}))
    assert len(read(backed_up)) == 6
    assert "does not name the hash" in read_status(backed_up.repository).backups[0].problems[0]
    found = check_history(backed_up.backup)
    assert (found.head.seq, [(each.first_commit, each.last_commit) for each in found.commits]) == (2, [(3, 3)])


def test_pins_are_not_set_there(outdated: Site) -> None:
    with pytest.raises(FormatTooNew):
        pin_point(outdated.backup, 2, reason="no")


def test_what_a_commit_of_nobody_s_dropped_is_read_as_of_the_commit_before_it(backed_up: Site) -> None:
    """All points are gone for every command; the data is there, and so are the commits before it."""
    site = backed_up
    everything = tuple(
        ExpiredRange(partition_id=each, start=0, end=position.end)
        for each, position in site.backup.state().positions.items()
    )
    forged = CommitChanges(forgotten=((1, 3),), expired=everything)
    base = site.backup.state()
    append_unchecked(site.backup, base, forged, committed_at_ms=base.committed_at_ms)
    with pytest.raises(NoSuchRestorePoint) as error:
        site.plan_restore(commit=2)
    assert "--as-of-head 2" in error.value.hint
    seen = RememberedHead(repository=site.repository, backup=BACKUP)
    read_status(site.repository)
    before = seen.get()
    assert read(site, as_of_head=2) == [*VALUES, *VALUES]
    assert read(site, as_of_head=2, commit=1) == VALUES
    result = site.restore(as_of_head=2)
    assert (result.commit, result.records, result.verified) == (2, 6, True)
    assert seen.get() == before, "what was left aside on purpose is not forgotten"
    for commit in (0, 9):
        with pytest.raises(NoSuchRestorePoint):
            read(site, as_of_head=commit)
    with pytest.raises(DamagedCommit, match="ignored, as requested"):
        read(site, as_of_head=1, commit=2)


@pytest.mark.parametrize("data", [newer(), b"junk"])
def test_what_cannot_be_read_is_left_aside_in_the_same_way(backed_up: Site, data: bytes) -> None:
    put_next(backed_up, data)
    assert read(backed_up, as_of_head=2) == [*VALUES, *VALUES]
