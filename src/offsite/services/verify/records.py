"""Are the records beside the data (of restores, drills and changes to groups) what was written? Reads all of them.

None of them is needed to restore. A restore that did not end needs its own to go on, a changed group to be put back.
Objects of earlier versions have no digest: of those is told that nothing vouches for them.
"""

from __future__ import annotations

from dataclasses import dataclass

from offsite.log.offset_map import OffsetMap
from offsite.model.errors import DamagedObject, OffsiteError
from offsite.model.untrusted.bounded_json import BadJson, decode_json
from offsite.model.untrusted.digest import DigestState, check_digest
from offsite.repository.backup import Backup
from offsite.repository.json_form import parse_json_object
from offsite.repository.layout import PROBE_KEY, ROOT_KEY
from offsite.repository.restores.lease import BEATS
from offsite.repository.segments.body import content_hash
from offsite.repository.state import BackupState
from offsite.services.verify.history import ObjectDamage
from offsite.stores.store import Store

_HASHED_BY = {"report.html": ("report.json", "page_hash"), "before.parquet": ("change.json", "before_hash")}
"""Objects that a record beside them names the hash of, and in which member."""

_MAP_WITHOUT_DIGEST = b"OFMP\x01"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedRecords:
    """Result of the check of records. `unvouched` are keys of objects that may say anything, by all that is known of
    them."""

    damaged: tuple[ObjectDamage, ...]
    unvouched: tuple[str, ...]


def unvouched_objects(backup: Backup, head: BackupState) -> tuple[str, ...]:
    """The objects that every command reads and that have no digest, and no hash named elsewhere."""
    layout = backup.layout
    keys = (ROOT_KEY, layout.descriptor_key, layout.hint_key, *([layout.commit_key(head.seq)] if head.seq else []))
    return tuple(key for key in keys if (data := backup.store.get(key)) is not None and not _has_digest(data))


def check_records(backup: Backup) -> CheckedRecords:
    """The check of the records of `backup`, and of what belongs to the repository as a whole."""
    layout, store = backup.layout, backup.store
    keys = [info.key for prefix in layout.record_prefixes for info in store.list(prefix)]
    keys += [PROBE_KEY] if store.head(PROBE_KEY) is not None else []
    damaged: list[ObjectDamage] = []
    unvouched: list[str] = []
    for key in keys:
        try:
            unvouched += [] if _is_vouched_for(store, key) else [key]
        except OffsiteError as error:
            damaged.append(ObjectDamage(key=key, problem=error.message))
    return CheckedRecords(damaged=tuple(damaged), unvouched=tuple(unvouched))


def _is_vouched_for(store: Store, key: str) -> bool:
    """Whether something says what the object is; then it is that. Raises `DamagedObject`."""
    data = store.get(key)
    folder, _, name = key.rpartition("/")
    if data is None:
        raise DamagedObject(f"{key} was listed and cannot be read")
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
    """That which the record beside it names; of earlier versions it may name none."""
    about = store.get(record)
    if about is None or _is_of_earlier_version(record, about):
        return False
    item = parse_json_object(about, source=record, damaged=DamagedObject)
    if item.text(member) != content_hash(data):
        raise DamagedObject(f"{key} does not have its recorded hash")
    return True


def _is_sign_of_life(key: str, data: bytes) -> bool:
    if data not in BEATS:
        raise DamagedObject(f"{key} is no sign of life")
    return True


def _is_of_earlier_version(key: str, data: bytes) -> bool:
    """Earlier versions wrote reports of drills as scripts see them, and a probe that is no JSON."""
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
