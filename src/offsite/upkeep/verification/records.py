"""Checks the objects besides the data: records (of restores, drills, checks and changes to groups) and snapshots (of
groups and cluster settings) must exist and be unchanged. Reads only.

No record is needed to restore. An unfinished restore needs its record to continue, a changed group needs it for an
undo. Objects of earlier versions have no digest: the check reports that nothing vouches for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from offsite.log.offset_map import OffsetMap
from offsite.model.errors import DamagedObject, OffsiteError
from offsite.model.untrusted.bounded_json import BadJson, DigestState, check_digest, decode_json
from offsite.repository.backup import Backup
from offsite.repository.json_form import parse_json_object
from offsite.repository.layout import PROBE_KEY, ROOT_KEY, own_objects
from offsite.repository.lease import BEATS
from offsite.repository.segments.body import content_hash
from offsite.repository.snapshots.group_snapshot import get_group_snapshot
from offsite.repository.snapshots.named_object import get_cluster_snapshot
from offsite.repository.state import BackupState
from offsite.stores.store import Store
from offsite.upkeep.verification.history import CheckedHistory, ObjectDamage

_HASHED_BY = {"report.html": ("report.json", "page_hash"), "before.parquet": ("change.json", "before_hash")}
"""Objects with their hash in a neighbouring record, and the member of the record."""

_READS_AT_ONCE = 16
"""Records read in parallel: checks of years are many small objects."""

_MAP_WITHOUT_DIGEST = b"OFMP\x01"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedRecords:
    """Result of the check of records. `unvouched` are keys of objects without a digest or hash to prove their
    content."""

    damaged: tuple[ObjectDamage, ...]
    unvouched: tuple[str, ...]


def unvouched_objects(backup: Backup, head: BackupState) -> tuple[str, ...]:
    """The objects read by every command that have no digest, and no hash named elsewhere."""
    layout = backup.layout
    keys = (ROOT_KEY, layout.descriptor_key, layout.hint_key, *([layout.commit_key(head.seq)] if head.seq else []))
    return tuple(key for key in keys if (data := backup.store.get(key)) is not None and not _has_digest(data))


def check_records(backup: Backup) -> CheckedRecords:
    """The check of the records of `backup`, and of objects that belong to the whole repository."""
    layout, store = backup.layout, backup.store
    keys = [info.key for prefix in layout.record_prefixes for info in own_objects(store.list(prefix))]
    keys += [PROBE_KEY] if store.head(PROBE_KEY) is not None else []
    with ThreadPoolExecutor(max_workers=_READS_AT_ONCE, thread_name_prefix="verify") as pool:
        checked = tuple(zip(keys, pool.map(partial(_check_record, store), keys), strict=True))
    return CheckedRecords(
        damaged=tuple(outcome for _, outcome in checked if isinstance(outcome, ObjectDamage)),
        unvouched=tuple(key for key, outcome in checked if outcome is False),
    )


def _check_record(store: Store, key: str) -> ObjectDamage | bool:
    """The damage of the object, or else whether a digest or hash proves its content."""
    try:
        return _is_vouched_for(store, key)
    except OffsiteError as error:
        return ObjectDamage(key=key, problem=error.message)


def _is_vouched_for(store: Store, key: str) -> bool:
    """Whether a digest or hash proves the object's content. Raises `DamagedObject` for another content."""
    data = store.get(key)
    folder, _, name = key.rpartition("/")
    if data is None:
        raise DamagedObject(f"{key} is listed but cannot be read")
    if name.endswith(".map"):
        OffsetMap.from_bytes(data)
        return not data.startswith(_MAP_WITHOUT_DIGEST)
    if name in _HASHED_BY:
        record, member = _HASHED_BY[name]
        return _has_hash(store, key, data, f"{folder}/{record}", member)
    if name.endswith(".beat.json"):
        return _is_sign_of_life(key, data)
    if not _is_of_earlier_version(key, data):
        parse_json_object(data, source=key, damaged=DamagedObject)
    return _has_digest(data)


def _has_hash(store: Store, key: str, data: bytes, record: str, member: str) -> bool:
    """Compare with the hash in the neighbouring record; records of earlier versions may have none."""
    about = store.get(record)
    if about is None or _is_of_earlier_version(record, about):
        return False
    json_object = parse_json_object(about, source=record, damaged=DamagedObject)
    if json_object.text(member) != content_hash(data):
        raise DamagedObject(f"{key} does not have its recorded hash")
    return True


def _is_sign_of_life(key: str, data: bytes) -> bool:
    if data not in BEATS:
        raise DamagedObject(f"{key} is not a valid heartbeat")
    return True


def _is_of_earlier_version(key: str, data: bytes) -> bool:
    """Earlier versions wrote reports of drills in the form for scripts, and a probe that is not JSON."""
    if key == PROBE_KEY:
        return len(data) == 16 and data.isalnum()
    if "/drills/" not in key:
        return False
    try:
        fields = decode_json(data)
    except BadJson as error:
        raise DamagedObject(f"{key}: {error}") from error
    return isinstance(fields, dict) and "format" not in fields and "digest" not in fields


def _has_digest(data: bytes) -> bool:
    return check_digest(data) is DigestState.RIGHT


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotDamage:
    """A damaged snapshot; commit `first_commit` was the first with the snapshot."""

    key: str
    problem: str
    first_commit: int


def look_up_snapshots(backup: Backup, history: CheckedHistory) -> tuple[SnapshotDamage, ...]:
    """The damage to snapshots of the newest commit, as far as a look-up shows."""
    head = history.head
    keys = [head.groups, head.metadata.key if head.metadata else None]
    problems = {key: _problem(backup.store, key) for key in keys if key is not None}
    return tuple(SnapshotDamage(key=key, problem=why, first_commit=head.seq) for key, why in problems.items() if why)


def read_snapshots(backup: Backup, history: CheckedHistory) -> tuple[SnapshotDamage, ...]:
    """The damage to all snapshots named by commits. Reads all of them."""
    return tuple(_damages(backup.store, history))


def _problem(store: Store, key: str) -> str:
    try:
        return f"{key} is missing" if store.head(key) is None else ""
    except DamagedObject as error:  # the commit names an impossible key
        return error.message


def _damages(store: Store, history: CheckedHistory) -> Iterator[SnapshotDamage]:
    for key, seq in history.groups.items():
        try:
            get_group_snapshot(store, key)
        except DamagedObject as error:
            yield SnapshotDamage(key=key, problem=error.message, first_commit=seq)
    for ref, seq in history.settings.items():
        try:
            get_cluster_snapshot(store, ref)
        except DamagedObject as error:
            yield SnapshotDamage(key=ref.key, problem=error.message, first_commit=seq)
