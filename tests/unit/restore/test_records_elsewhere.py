"""Restores and drills from a repository that cannot be written: what is remembered of them lies in another place."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

from offsite.groups.restored_offsets import map_offset
from offsite.groups.run import GroupsRequest, apply_groups, prepare_groups
from offsite.groups.undo import find_change, undo_groups
from offsite.log.range import TopicPartition
from offsite.model.clock import SystemClock
from offsite.model.errors import (
    NoSuchRestore,
    OffsiteError,
    RestoreRefused,
    RestoreRunning,
    StoreDenied,
    StoreFull,
    StoreUnreachable,
    TargetNotEmpty,
)
from offsite.model.selection import parse_selection
from offsite.overview.status import read_status
from offsite.repository.backup import Backup
from offsite.repository.leftovers import living_restores
from offsite.repository.repository import Repository
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.restores.record import get_outcome, put_record
from offsite.restore.compare.run import CompareRequest, plan_comparison, run_comparison
from offsite.restore.drill import Drill, DrillRequest
from offsite.restore.drill_report import DrillReport
from offsite.restore.plan_report import report_plan
from offsite.stores.object_store import CloudStore
from offsite.stores.posix_store import PosixStore, open_folder
from offsite.stores.wrapped_store import ClockFallbackStore
from tests.denied_store import DeniedStore
from tests.fake_cluster.site import BACKUP, Site
from tests.unit.restore.test_forged_restores import _killed

VALUES = [b"1", b"2", b"3"]


@pytest.fixture
def media(site: Site) -> Site:
    """A repository that was written and cannot be any more."""
    site.source.make_topic("orders")
    site.source.write("orders", VALUES)
    site.source.commit_group("readers", "orders", [2])
    site.back_up("orders")
    return replace(site, repository=replace(site.repository, store=DeniedStore(site.repository.store)))


@pytest.fixture
def place(tmp_path: Path) -> PosixStore:
    (tmp_path / "records").mkdir()
    return open_folder(tmp_path / "records")


def kept_there(media: Site, place: PosixStore) -> Backup:
    """The backup as a command opens it that is given the option."""
    return replace(media.repository, records_at=place).backup(BACKUP)


def names_in(place: PosixStore) -> set[str]:
    """The folders of backups, and what is directly in them."""
    return {"/".join(info.key.split("/")[:3]) for info in place.list("backups/")}


def test_a_restore_that_is_not_told_where_to_keep_its_records_says_how(media: Site) -> None:
    with pytest.raises(StoreDenied) as caught:
        media.restore()
    assert "--records FOLDER or URL" in caught.value.hint
    assert not media.target.topics


def test_a_restore_keeps_its_records_there_and_is_proven_by_them(media: Site, place: PosixStore) -> None:
    result = media.restore(records=place.url, offsets="translate", groups=["all"])
    assert (result.verified, result.records) == (True, 3)
    assert media.target.values("orders") == VALUES
    assert media.target.committed("readers", "orders") == {0: 2}
    under = f"backups/{BACKUP}"
    assert names_in(place) == {f"{under}/restores", f"{under}/records-of.json", f"{under}/group-changes"}
    backup, layout = kept_there(media, place), RestoreLayout(backup=media.backup.layout, restore=result.restore)
    assert get_outcome(place, layout) is not None
    assert not list(media.backup.store.list(f"{under}/restores/"))
    assert map_offset(backup, result.restore, TopicPartition(topic="orders", partition=0), 1).target_offset == 1


def test_what_comes_later_finds_it_with_the_same_option_and_not_without(media: Site, place: PosixStore) -> None:
    restore = media.restore(records=place.url).restore
    backup, admin = kept_there(media, place), media.target.admin
    wanted = CompareRequest(selection=parse_selection(["*"]), restore=restore)
    compared = plan_comparison(backup, admin, wanted)
    assert run_comparison(compared, cluster=media.target.connected, runner=media.runner).verified
    with pytest.raises(NoSuchRestore) as caught:
        plan_comparison(media.backup, admin, wanted)
    assert "--records" in caught.value.hint
    applied = apply_groups(prepare_groups(backup, admin, GroupsRequest(restore=restore)), admin)
    assert applied.offsets_set == 1
    assert undo_groups(backup, admin, find_change(backup, admin, applied.change)).offsets_removed == 1


def test_a_change_that_the_repository_remembers_is_undone_with_the_record_of_that_elsewhere(
    media: Site, place: PosixStore
) -> None:
    """It was written while it could be; now it is read-only."""
    writable = replace(media, repository=replace(media.repository, store=media.repository.store.inner))  # type: ignore[attr-defined]
    media.target.make_topic("orders")
    media.target.write("orders", VALUES)
    admin = media.target.admin
    change = apply_groups(prepare_groups(writable.backup, admin, GroupsRequest()), admin).change
    before = {info.key for info in writable.repository.store.list("")}
    backup = kept_there(media, place)
    found = find_change(backup, admin, None)
    assert found.change == change
    assert undo_groups(backup, admin, found).offsets_removed == 1
    assert media.target.committed("readers", "orders") == {}
    assert {info.key for info in writable.repository.store.list("")} == before
    with pytest.raises(NoSuchRestore):
        find_change(backup, admin, change)


def kill(media: Site, place: PosixStore) -> str:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("offsite.restore.run.put_outcome", _killed)
        with pytest.raises(KeyboardInterrupt):
            media.restore(records=place.url)
    (begun,) = {info.key.split("/")[3] for info in place.list(f"backups/{BACKUP}/restores/")}
    return begun


def test_one_that_was_broken_off_goes_on_by_itself_where_this_machine_began_it(
    media: Site, place: PosixStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = kill(media, place)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another"))
    with pytest.raises(TargetNotEmpty) as caught:
        media.restore(records=place.url)
    assert f"--resume {begun}" in caught.value.hint
    monkeypatch.undo()
    result = media.restore(records=place.url)
    assert (result.resumed, result.restore, result.verified) == (True, begun, True)


def test_one_that_was_begun_in_the_repository_is_named_where_records_lie_elsewhere_now(
    site: Site, place: PosixStore
) -> None:
    site.source.make_topic("orders")
    site.source.write("orders", VALUES)
    site.back_up("orders")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("offsite.restore.run.put_outcome", _killed)
        with pytest.raises(KeyboardInterrupt):
            site.restore()
    with pytest.raises(TargetNotEmpty, match="holds 3 records") as told:
        site.restore(records=place.url)
    assert "to continue it, use the same options again" in told.value.hint
    assert "without --records" in told.value.hint
    assert site.restore().resumed


def test_one_that_goes_into_the_same_topics_by_the_records_of_the_repository_is_seen(
    site: Site, place: PosixStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The topics are there and empty still: both would write into them."""
    site.source.make_topic("orders")
    site.source.write("orders", VALUES)
    site.back_up("orders")
    site.target.make_topic("orders", **{"retention.ms": "-1"})

    def meanwhile(*_: object, **__: object) -> NoReturn:
        monkeypatch.undo()
        with pytest.raises(RestoreRunning, match="has been busy with"):
            site.restore(records=place.url)
        raise KeyboardInterrupt

    monkeypatch.setattr("offsite.restore.write_jobs.find_targets", meanwhile)
    with pytest.raises(KeyboardInterrupt):
        site.restore()
    assert site.target.values("orders") == []
    assert site.restore(records=place.url).verified, "whose process gave its lease up is not waited for"


@pytest.mark.parametrize("way", ["link", "dots"])
def test_it_goes_on_by_any_name_of_the_folder(media: Site, place: PosixStore, tmp_path: Path, way: str) -> None:
    begun = kill(media, place)
    (tmp_path / "link").symlink_to(place.root)
    named = tmp_path / "link" if way == "link" else place.root / ".." / place.root.name
    result = media.restore(records=str(named))
    assert (result.resumed, result.restore, result.verified) == (True, begun, True)


@pytest.mark.parametrize("told", [StoreDenied("read-only by now"), StoreUnreachable("gone")])
def test_what_a_restore_ends_with_is_not_hidden_by_a_lease_that_cannot_be_given_up(
    media: Site, place: PosixStore, monkeypatch: pytest.MonkeyPatch, told: OffsiteError
) -> None:
    terms = "offsite.repository.lease.Lease"

    def fail(*_: object) -> NoReturn:
        raise told

    def fill(*_: object) -> NoReturn:
        monkeypatch.setattr(f"{terms}.check", fail)
        raise StoreFull("no room")

    monkeypatch.setattr(f"{terms}.end", fail)
    assert media.restore(records=place.url, rename=["orders=first"]).verified
    monkeypatch.setattr("offsite.restore.run.put_outcome", fill)
    with pytest.raises(StoreFull):
        media.restore(records=place.url)


def test_another_machine_goes_on_with_it_by_name(
    media: Site, place: PosixStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = kill(media, place)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another"))
    result = media.restore(records=place.url, resume=begun)
    assert (result.resumed, result.restore, result.verified) == (True, begun, True)


def test_a_record_that_a_stranger_put_there_is_not_gone_on_with(media: Site, place: PosixStore) -> None:
    """The memory of own writes is that of the place where records are."""
    record = media.plan_restore(records=place.url).record
    forged = replace(record, restore="20991231-000000-0123abcd", topics=(("orders", "precious"),))
    put_record(place, RestoreLayout(backup=media.backup.layout, restore=forged.restore), forged)
    result = media.restore(records=place.url)
    assert (result.resumed, list(result.topics)) == (False, ["orders"])


def test_the_plan_says_where_the_record_will_lie(media: Site, place: PosixStore) -> None:
    report = report_plan(media.plan_restore(records=place.url))
    assert report.records_at == place.url
    (told,) = [note for note in report.notes if place.url in note]
    assert "Retention and collection of the backup do not see this restore" in told
    assert not names_in(place)


def test_a_plan_of_what_cannot_be_written_says_what_the_restore_will_need(media: Site) -> None:
    looking = replace(media, repository=replace(media.repository, store=ClockFallbackStore(media.repository.store)))
    (told,) = [note for note in report_plan(looking.plan_restore()).notes if "--records" in note]
    assert "cannot be written, and the record of a restore belongs there" in told


def test_several_backups_share_the_place_and_two_of_one_name_do_not(
    media: Site, place: PosixStore, tmp_path: Path
) -> None:
    media.restore(records=place.url)
    other = replace(media, repository=Repository.init(open_folder(tmp_path / "other")))
    other.back_up("orders")
    with pytest.raises(RestoreRefused, match=f"has records of another backup {BACKUP}"):
        other.restore(records=place.url, rename=["orders=again"])
    with pytest.raises(RestoreRefused, match="is a repository"):
        media.restore(records=other.repository.store.url, rename=["orders=again"])
    backup = replace(media.repository, store=media.repository.store).backup(BACKUP)
    renamed = replace(backup.descriptor, name="weekly")
    assert replace(backup, descriptor=renamed).with_records_at(place).record_store == place


@pytest.mark.parametrize("below", ["", "backups", f"backups/{BACKUP}", "records"])
@pytest.mark.parametrize("way", ["plain", "link", "dots"])
def test_a_folder_of_the_repository_is_no_place_for_them(media: Site, tmp_path: Path, below: str, way: str) -> None:
    """`backups/backups/` would be a backup that has lost its description."""
    root = Path(media.repository.store.url)
    (root / below).mkdir(exist_ok=True)
    (tmp_path / "link").symlink_to(root / below)
    named = {"plain": root / below, "link": tmp_path / "link", "dots": root / "backups" / ".." / below}[way]
    with pytest.raises(RestoreRefused, match=r"is inside the repository|is a repository, not a place"):
        media.restore(records=str(named))


def test_a_folder_of_another_repository_is_none_either(media: Site, tmp_path: Path) -> None:
    Repository.init(open_folder(tmp_path / "other"))
    (tmp_path / "other/records").mkdir()
    with pytest.raises(RestoreRefused, match="is inside the repository"):
        media.restore(records=str(tmp_path / "other/records"))


def test_a_prefix_of_the_same_name_at_another_endpoint_is_one(media: Site) -> None:
    class Named(DeniedStore):
        @property
        def url(self) -> str:
            return "memory:///a"

    place = CloudStore(url="memory:///a/records")
    named = replace(media.repository, store=Named(media.repository.store), records_at=place)
    assert named.backup(BACKUP).record_store == place


def test_status_names_a_place_that_is_none_and_calls_no_backup_unsafe(media: Site, tmp_path: Path) -> None:
    with pytest.raises(StoreUnreachable):
        read_status(replace(media.repository, records_at=open_folder(tmp_path / "nowhere")))
    with pytest.raises(RestoreRefused, match="is a repository"):
        read_status(replace(media.repository, records_at=open_folder(Path(media.repository.store.url))))


def test_a_folder_that_is_not_there_is_not_made(media: Site, tmp_path: Path) -> None:
    with pytest.raises(StoreUnreachable) as caught:
        media.restore(records=str(tmp_path / "nowhere"))
    assert "a new place for records must be an empty folder that you create" in caught.value.hint
    assert not (tmp_path / "nowhere").exists()


def test_a_drill_keeps_its_records_there_and_is_remembered(media: Site, place: PosixStore) -> None:
    reports: list[DrillReport] = []
    request = DrillRequest(selection=parse_selection(["*"]), commit=None, in_sandbox=False, by="nobody")

    def drill(backup: Backup) -> DrillReport:
        return Drill(
            backup,
            request,
            cluster=media.target.connected,
            runner=media.runner,
            clock=SystemClock(),
            on_report=reports.append,
        ).run()

    with pytest.raises(StoreDenied) as caught:
        drill(media.backup)
    assert "--records FOLDER or URL" in caught.value.hint
    report = drill(kept_there(media, place))
    assert (report.proven, reports) == (True, [report])
    assert not media.target.topics


def test_status_tells_of_restores_there_and_retention_does_not(media: Site, place: PosixStore) -> None:
    media.target.make_topic("orders", **{"retention.ms": "1"})
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("offsite.restore.run.put_outcome", _killed)
        patched.setattr("offsite.restore.set_aside._is_still_ours", lambda _: False)
        patched.setattr("offsite.restore.run.finish_topics", _killed)
        with pytest.raises(KeyboardInterrupt):
            media.restore(records=place.url, retention="override")
    (begun,) = {info.key.split("/")[3] for info in place.list(f"backups/{BACKUP}/restores/")}
    told = read_status(replace(media.repository, records_at=place)).backups[0].notes
    assert [begun in note for note in told] == [True]
    assert not any(begun in note for note in read_status(media.repository).backups[0].notes)
    assert living_restores(media.backup) == ()


def test_what_an_earlier_restore_of_the_repository_set_aside_is_not_taken_for_the_topics_own(
    site: Site, place: PosixStore
) -> None:
    """It was killed, then nothing could be written there any more, and the next one kept its records elsewhere."""
    site.source.make_topic("orders")
    site.source.write("orders", VALUES)
    site.back_up("orders")
    site.target.make_topic("orders", **{"retention.ms": "86400000"})
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("offsite.restore.set_aside._is_still_ours", lambda _: False)
        patched.setattr("offsite.restore.write_jobs.find_targets", _killed)
        with pytest.raises(KeyboardInterrupt):
            site.restore(retention="override")
    assert site.target.topics["orders"].configs["retention.ms"] == "-1"
    (begun,) = {info.key.split("/")[3] for info in site.repository.store.list(f"backups/{BACKUP}/restores/")}
    media = replace(site, repository=replace(site.repository, store=DeniedStore(site.repository.store)))
    told = read_status(replace(media.repository, records_at=place)).backups[0].notes
    assert [begun in note for note in told] == [True]
    result = media.restore(records=place.url, retention="override")
    assert (result.resumed, result.verified) == (False, True)
    assert site.target.topics["orders"].configs["retention.ms"] == "86400000"
