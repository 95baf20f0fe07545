"""Records of restores that a stranger put: whoever may create objects in the bucket must not cause through them what a
restore does with the credentials of the cluster."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from offsite.log.range import TopicPartition
from offsite.model.errors import DamagedObject, NoSuchRestore, RestoreRefused, RestoreRunning, TargetNotEmpty
from offsite.overview.status import read_status
from offsite.repository.json_form import encode_object
from offsite.repository.lease import ProcessIdentity
from offsite.repository.leftovers import living_since_ms
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.restores.record import RestoreRecord, RestoreTargets, get_targets, put_record, put_targets
from offsite.repository.restores.topic_settings import SetAsideSettings, TargetTopicSettings, put_aside
from offsite.upkeep.retention.plan import points_in_use
from tests.fake_cluster.site import Site

VALUES = [b"1", b"2", b"3"]
FORGED = "20991231-000000-0123abcd"


@pytest.fixture
def backed_up(site: Site) -> Site:
    """Two commits; in the target a topic of somebody else."""
    site.source.make_topic("orders")
    for _ in range(2):
        site.source.write("orders", VALUES)
        site.back_up("orders")
    site.target.make_topic("precious", **{"retention.ms": "86400000"})
    site.target.write("precious", VALUES)
    return site


def forge(site: Site, **changed: object) -> RestoreRecord:
    """A record of the very request that the next restore will ask for, with a topic that is there."""
    harm = TargetTopicSettings(
        topic="precious", create=False, partitions=1, replication_factor=1, at_end=(("retention.ms", "1"),)
    )
    planned = site.plan_restore()
    record = replace(
        planned.record,
        restore=FORGED,
        commit=1,
        created_at_ms=planned.record.created_at_ms + 1000,
        topics=(*planned.record.topics, ("x", "precious")),
        settings=(*planned.record.settings, harm),
    )
    record = replace(record, **changed)  # type: ignore[arg-type]
    put_record(site.backup.store, layout_of(site, record), record)
    return record


def layout_of(site: Site, record: RestoreRecord) -> RestoreLayout:
    return RestoreLayout(backup=site.backup.layout, restore=record.restore)


def test_a_restore_that_a_stranger_made_up_is_not_gone_on_with(backed_up: Site) -> None:
    """It went to commit 1, and gave a topic of somebody else a retention of a millisecond."""
    forge(backed_up)
    result = backed_up.restore()
    assert (result.commit, result.resumed, result.records) == (2, False, 6)
    assert backed_up.target.topics["precious"].configs.get("retention.ms") == "86400000"


def test_nothing_is_written_into_a_topic_that_such_a_restore_calls_its_own(backed_up: Site) -> None:
    """Its `targets.json` said that the topic, which holds records, ended there when the restore began."""
    site = backed_up
    record = forge(site, settings=(), topics=(("orders", "orders"),), created=())
    topic = site.target.make_topic("orders")
    site.target.write("orders", [b"live"])
    where = TopicPartition(topic="orders", partition=0)
    targets = RestoreTargets(topic_ids=(("orders", str(topic.topic_id)),), starts=((where, 1),))
    put_targets(site.backup.store, layout_of(site, record), targets, number=1)
    with pytest.raises(TargetNotEmpty) as error:
        site.restore()
    assert site.target.values("orders") == [b"live"]
    assert f"--resume {FORGED}" in error.value.hint
    assert "this machine did not begin that restore" in error.value.hint


def test_a_person_can_name_a_restore_that_another_machine_began(
    backed_up: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = backed_up
    begun = kill(site)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another"))
    with pytest.raises(TargetNotEmpty) as error:
        site.restore()
    assert f"--resume {begun}" in error.value.hint
    with pytest.raises(NoSuchRestore):
        site.restore(resume=FORGED)
    result = site.restore(resume=begun)
    assert (result.resumed, result.restore, result.commit, result.verified) == (True, begun, 2, True)
    assert site.target.values("orders") == [*VALUES, *VALUES]


def test_one_that_this_machine_began_goes_on_by_itself(backed_up: Site) -> None:
    begun = kill(backed_up)
    forge(backed_up, settings=())  # a later one of the same request does not take its place
    result = backed_up.restore()
    assert (result.resumed, result.restore) == (True, begun)


def test_what_a_stranger_adds_to_a_restore_of_ours_is_refused(backed_up: Site) -> None:
    begun = kill(backed_up)
    layout = RestoreLayout(backup=backed_up.backup.layout, restore=begun)
    known = get_targets(backed_up.backup.store, layout)
    assert known is not None
    starts = tuple((where, start + 3) for where, start in known.starts)
    put_targets(backed_up.backup.store, layout, replace(known, starts=starts), number=2)
    with pytest.raises(RestoreRefused) as error:
        backed_up.restore()
    assert "this installation did not write it" in error.value.message
    backed_up.backup.store.delete(layout.targets_key(2))
    assert backed_up.restore().verified


def test_originals_that_a_stranger_wrote_down_are_not_given_to_topics(backed_up: Site) -> None:
    """Another unfinished restore says what the topic had before: it is believed where this machine wrote that."""
    site = backed_up
    site.target.make_topic("orders", **{"retention.ms": "-1"})
    aside = SetAsideSettings(topic="orders", meanwhile=(("retention.ms", "-1"),), originals=(("retention.ms", "1"),))
    record = forge(site, settings=(), request=(("selection", "orders"),), created=())
    put_aside(site.backup.store, layout_of(site, record), (aside,))
    (told,) = [note for note in read_status(site.repository).backups[0].notes if FORGED in note]
    assert "this machine did not write" in told
    site.restore()
    assert site.target.topics["orders"].configs["retention.ms"] == "-1"


@pytest.mark.parametrize("data", [b"junk", encode_object({"format": 99}), b"{}"])
def test_one_record_that_cannot_be_read_ends_no_restore(backed_up: Site, data: bytes) -> None:
    site = backed_up
    store = site.backup.store
    for name in ("x", "20991231-000000-0123abcd"):
        store.put_if_absent(f"backups/{site.backup.layout.backup}/restores/{name}/restore.json", data)
    store.put_if_absent(f"backups/{site.backup.layout.backup}/restores/-no name/restore.json", data)
    result = site.restore()
    assert (result.commit, result.verified) == (2, True)
    status = read_status(site.repository).backups[0]
    assert [note[:9] for note in status.notes if "cannot be read" in note] == ["restore 2", "restore x"]


def test_it_ends_restores_while_a_process_has_it_in_hand(backed_up: Site) -> None:
    """Then it may write into the same topics, and nobody knows."""
    store, layout = backed_up.backup.store, RestoreLayout(backup=backed_up.backup.layout, restore="x")
    store.put_if_absent(layout.record_key, b"junk")
    other = replace(ProcessIdentity.current(), host="elsewhere")
    claim = layout.lease(store).claim(other, "word", take_over=False)
    with pytest.raises(RestoreRunning, match="restore x"):
        backed_up.restore()
    layout.lease(store).end(claim)
    assert backed_up.restore().verified


def test_it_stops_retention_for_a_day_at_most(backed_up: Site) -> None:
    """As any other restore that writes nothing more: by the store's times, not by what it says."""
    backup = backed_up.backup
    layout = RestoreLayout(backup=backup.layout, restore="x")
    backup.store.put_if_absent(layout.record_key, b"junk")
    with pytest.raises(DamagedObject) as error:
        points_in_use(backup)
    assert "restores/x/" in error.value.hint
    path = Path(backup.store.url) / layout.record_key
    day_ago_s = path.stat().st_mtime - 25 * 3600
    os.utime(path, (day_ago_s, day_ago_s))
    assert points_in_use(backup) == ()
    assert living_since_ms(backup) is None


def kill(site: Site) -> str:
    """A restore that was killed before its report: its id."""
    store = site.backup.store
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("offsite.restore.run.put_outcome", _killed)
        with pytest.raises(KeyboardInterrupt):
            site.restore()
    (begun,) = {each.key.split("/")[3] for each in store.list(f"{site.backup.layout.prefix}restores/")}
    return begun


def _killed(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_a_claim_that_cannot_be_read_holds_nobody_up_once_nothing_is_written_there(backed_up: Site) -> None:
    """It is of a restore into the same topics, as a record of a stranger says."""
    record = forge(backed_up, settings=())
    backup, layout = backed_up.backup, layout_of(backed_up, record)
    backup.store.put_if_absent(layout.lease(backup.store).key(1, "claim"), b"junk")
    with pytest.raises(DamagedObject):
        backed_up.restore()
    path = Path(backup.store.url) / layout.lease(backup.store).key(1, "claim")
    os.utime(path, (path.stat().st_mtime - 60,) * 2)
    assert backed_up.restore().verified
