"""Are the records beside the data (of restores, drills and changes to groups) what was written? Reads all of them.

None of them is needed to restore. A restore that did not end needs its own to go on, a changed group to be put back.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from offsite.log.offset_map import OffsetMap
from offsite.model.errors import DamagedObject, OffsiteError
from offsite.repository.backup import Backup
from offsite.repository.json_form import parse_json_object
from offsite.repository.layout import PROBE_KEY
from offsite.repository.restore_lease import BEATS
from offsite.repository.segment_body import content_hash
from offsite.repository.store import Store
from offsite.services.verify_history import ObjectDamage

_HASHED_BY = {"report.html": ("report.json", "page_hash"), "before.parquet": ("change.json", "before_hash")}
"""Objects that a record beside them names the hash of, and in which member."""


def read_records(backup: Backup) -> Iterator[ObjectDamage]:
    """What is wrong with the records of `backup`, and with what belongs to the repository as a whole."""
    layout, store = backup.layout, backup.store
    for prefix in layout.record_prefixes:
        for info in store.list(prefix):
            yield from _damage(store, info.key)
    if store.head(PROBE_KEY) is not None:
        yield from _damage(store, PROBE_KEY)


def _damage(store: Store, key: str) -> Iterator[ObjectDamage]:
    try:
        _check(store, key)
    except OffsiteError as error:
        yield ObjectDamage(key=key, problem=error.message)


def _check(store: Store, key: str) -> None:
    """Raises `DamagedObject`."""
    data = store.get(key)
    folder, _, name = key.rpartition("/")
    if data is None:
        raise DamagedObject(f"{key} was listed and cannot be read")
    if name.endswith(".map"):
        OffsetMap.from_bytes(data)
    elif name in _HASHED_BY:
        record, member = _HASHED_BY[name]
        _check_hash(store, key, data, f"{folder}/{record}", member)
    elif name.endswith(".beat.json"):
        if data not in BEATS:
            raise DamagedObject(f"{key} is no sign of life")
    elif not _is_of_earlier_version(key, data):
        parse_json_object(data, source=key, damaged=DamagedObject)


def _check_hash(store: Store, key: str, data: bytes, record: str, member: str) -> None:
    """By the record beside it; without one, or of earlier versions, nothing says what it should be."""
    about = store.get(record)
    if about is None or _is_of_earlier_version(record, about):
        return
    item = parse_json_object(about, source=record, damaged=DamagedObject)
    if item.text(member) != content_hash(data):
        raise DamagedObject(f"{key} does not have its recorded hash")


def _is_of_earlier_version(key: str, data: bytes) -> bool:
    """Earlier versions wrote reports of drills as scripts see them, and a probe that is no JSON."""
    if key == PROBE_KEY:
        return len(data) == 16 and data.isalnum()
    if "/drills/" not in key:
        return False
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DamagedObject(f"{key}: not JSON: {error}") from error
    return isinstance(fields, dict) and "format" not in fields and "digest" not in fields
