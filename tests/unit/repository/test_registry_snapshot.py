"""The contents of a registry lie beside the commits, once while they do not change."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsite.model.errors import DamagedCommit, DamagedObject
from offsite.model.schema_registry import (
    MAX_ID,
    RegistrySnapshot,
    SchemaReference,
    StoredSchema,
    SubjectSettings,
    SubjectVersion,
    context_of,
)
from offsite.repository.backup import Backup
from offsite.repository.commit import CommitChanges, SnapshotRef
from offsite.repository.leftovers import LEFTOVER_AFTER_MS, find_orphans
from offsite.repository.snapshots.registry_snapshot import REGISTRY, get_registry_snapshot, put_registry_snapshot
from offsite.stores.posix_store import PosixStore

texts = st.text(max_size=8)
numbers = st.integers(0, MAX_ID)
references = st.builds(SchemaReference, name=texts, subject=texts, version=numbers)
schemas = st.builds(
    StoredSchema,
    context=texts,
    id=numbers,
    kind=st.sampled_from(["AVRO", "JSON", "PROTOBUF"]),
    text=texts,
    references=st.lists(references, max_size=2).map(tuple),
    more=texts,
    is_gone=st.booleans(),
)
versions = st.builds(SubjectVersion, subject=texts, version=numbers, id=numbers, is_deleted=st.booleans())
settings = st.builds(SubjectSettings, subject=texts, compatibility=texts, mode=texts, more=texts)
snapshots = st.builds(
    RegistrySnapshot,
    schemas=st.lists(schemas, max_size=2).map(tuple),
    versions=st.lists(versions, max_size=2).map(tuple),
    settings=st.lists(settings, max_size=2).map(tuple),
    unread=st.lists(texts, max_size=2).map(tuple),
)


def one(text: str = '"int"') -> RegistrySnapshot:
    schema = StoredSchema(id=1, kind="AVRO", text=text)
    return RegistrySnapshot(schemas=(schema,), versions=(SubjectVersion(subject="a-value", version=1, id=1),))


def commit(backup: Backup, snapshot: RegistrySnapshot) -> SnapshotRef:
    base = backup.state()
    ref = put_registry_snapshot(backup.store, backup.layout, base.seq + 1, snapshot, recorded=base.registry)
    backup.commit(CommitChanges(registry=ref), base=base, writer=str(base.seq))
    return ref


@given(snapshots)
def test_what_was_stored_is_read(snapshot: RegistrySnapshot) -> None:
    assert REGISTRY.decode(REGISTRY.encode(snapshot), key="registry") == snapshot


def test_a_commit_names_the_registry_until_it_changes(backup: Backup) -> None:
    first = commit(backup, one())
    assert get_registry_snapshot(backup.store, first) == one()
    assert commit(backup, one()) == first
    second = commit(backup, one('"long"'))
    assert second.key.startswith(f"{backup.layout.registry_prefix}{3:020d}-")
    assert backup.state().registry == second
    assert get_registry_snapshot(backup.store, first) == one()


def test_a_changed_byte_is_found(backup: Backup, store: PosixStore) -> None:
    ref = commit(backup, one())
    file = store.root / ref.key
    file.write_bytes(file.read_bytes().replace(b"int", b"lnt"))
    with pytest.raises(DamagedObject, match="does not have its recorded hash"):
        get_registry_snapshot(store, ref)


def test_only_what_no_commit_names_is_left_over(store: PosixStore, backup: Backup) -> None:
    commit(backup, one())
    orphan = put_registry_snapshot(backup.store, backup.layout, 9, one('"bytes"'), recorded=None)
    commit(backup, one('"long"'))
    for path in store.root.rglob("*"):
        os.utime(path, (0, (store.now_ms() - LEFTOVER_AFTER_MS) / 1000 - 5))
    assert [leftover.info.key for leftover in find_orphans(backup)] == [orphan.key]


def test_a_commit_cannot_name_the_registry_of_another_backup(backup: Backup) -> None:
    ref = SnapshotRef(key="backups/other/registry/00000000000000000001-00000000.json", hash="sha256:0")
    with pytest.raises(DamagedCommit, match="not an object of backup"):
        backup.commit(CommitChanges(registry=ref), base=backup.state(), writer="w")


@pytest.mark.parametrize(
    ("subject", "context"),
    [("a", ""), (":.west:a", "west"), (":.west:", "west"), (":.:a", ""), (":.west", ""), ("a:.west:b", "")],
)
def test_the_context_is_in_the_name_of_a_subject(subject: str, context: str) -> None:
    assert context_of(subject) == context


def test_references_in_a_circle_end() -> None:
    loop = tuple(
        StoredSchema(
            id=number, kind="AVRO", text=f'"{number}"', references=(SchemaReference(name="", subject=used, version=1),)
        )
        for number, used in ((1, "b"), (2, "a"))
    )
    names = (SubjectVersion(subject="a", version=1, id=1), SubjectVersion(subject="b", version=1, id=2))
    snapshot = RegistrySnapshot(schemas=loop, versions=names)
    assert [schema.id for schema in snapshot.with_references(loop[0])] == [2, 1]
