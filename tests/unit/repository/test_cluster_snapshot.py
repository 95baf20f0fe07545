from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsite.model.cluster_settings import Acl, ClientQuota, ClusterSettings, QuotaEntity, ScramUser
from offsite.model.errors import DamagedObject
from offsite.repository.backup import Backup
from offsite.repository.commit import CommitChanges
from offsite.repository.leftovers import LEFTOVER_AFTER_MS, find_orphans
from offsite.repository.snapshots.named_object import (
    CLUSTER_SETTINGS,
    get_cluster_snapshot,
    put_cluster_snapshot,
)
from offsite.repository.state import BackupState
from offsite.stores.posix_store import PosixStore

texts = st.text(max_size=10)
acls = st.builds(
    Acl,
    resource_type=st.sampled_from(["TOPIC", "99"]),
    resource=texts,
    pattern=texts,
    principal=texts,
    host=texts,
    operation=texts,
    permission=texts,
)
entities = st.dictionaries(texts, texts, min_size=1, max_size=2).map(lambda found: tuple(sorted(found.items())))
limits = st.dictionaries(texts, st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=2)
quotas = st.builds(
    ClientQuota,
    entity=st.builds(QuotaEntity, parts=entities),
    limits=limits.map(lambda found: tuple(sorted(found.items()))),
)
users = st.builds(ScramUser, name=texts, mechanism=texts, iterations=st.integers(1, 2**31 - 1))
settings = st.builds(
    ClusterSettings,
    acls=st.none() | st.lists(acls, max_size=3).map(tuple),
    quotas=st.none() | st.lists(quotas, max_size=3).map(tuple),
    scram_users=st.none() | st.lists(users, max_size=3).map(tuple),
)
ALICE = ClusterSettings(scram_users=(ScramUser(name="alice", mechanism="SCRAM-SHA-512", iterations=4096),))


def commit(backup: Backup, found: ClusterSettings) -> BackupState:
    base = backup.state()
    return backup.commit(
        CommitChanges(metadata=put_cluster_snapshot(backup.store, base, found)), base=base, writer=str(base.seq)
    )


def stored(backup: Backup) -> list[str]:
    return [info.key for info in backup.store.list(backup.layout.metadata_prefix)]


@given(settings)
def test_settings_read_back_as_written_and_what_could_not_be_read_stays_unknown(found: ClusterSettings) -> None:
    assert CLUSTER_SETTINGS.decode(CLUSTER_SETTINGS.encode(found), key="k") == found


def test_only_settings_that_changed_are_stored_and_each_restore_point_has_its_own(backup: Backup) -> None:
    for found in (ClusterSettings(), ClusterSettings(), ALICE, ALICE):
        commit(backup, found)
    assert len(stored(backup)) == 2
    refs = [backup.state_at(seq).metadata for seq in (1, 2, 3, 4)]
    assert refs[0] == refs[1] != refs[2] == refs[3]
    assert [get_cluster_snapshot(backup.store, ref) for ref in refs if ref] == [ClusterSettings()] * 2 + [ALICE] * 2
    assert [one.commit.changes.metadata is None for one in backup.log.read(after=0)] == [False, True, False, True]


def test_settings_that_were_altered_in_the_repository_are_damage(store: PosixStore, backup: Backup) -> None:
    ref = commit(backup, ALICE).metadata
    assert ref is not None
    path = store.root / ref.key
    path.write_bytes(path.read_bytes().replace(b"alice", b"eve"))
    with pytest.raises(DamagedObject, match="recorded hash"):
        get_cluster_snapshot(store, ref)
    path.unlink()
    with pytest.raises(DamagedObject, match="missing"):
        get_cluster_snapshot(store, ref)


def test_settings_that_no_commit_names_are_orphans_when_they_are_old(store: PosixStore, backup: Backup) -> None:
    commit(backup, ALICE)
    lost = put_cluster_snapshot(store, backup.state(), ClusterSettings())
    assert find_orphans(backup) == ()
    for path in store.root.rglob("*"):
        os.utime(path, (0, (store.now_ms() - LEFTOVER_AFTER_MS) / 1000 - 5))
    assert [each.info.key for each in find_orphans(backup)] == [lost.key]
