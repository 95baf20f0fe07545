"""The record of a check of a backup: depth and result. One small object per check, named by its time in seconds. The
last check of a depth is among the records with the last name, apart from the name's random end."""

from __future__ import annotations

from dataclasses import dataclass

from offsite.model.errors import DamagedObject
from offsite.model.ids import dated_id
from offsite.model.untrusted.json_object import JsonObject, JsonValue
from offsite.repository.json_form import FORMAT, encode_object, parse_json_object
from offsite.repository.layout import BackupLayout, own_objects
from offsite.stores.store import Store

DEEP = "deep"
DEPTHS = ("quick", DEEP)

_RECENT_MS = 40 * 86_400_000
"""How far back the first search for the last check goes: most backups are checked at least monthly, so the list of all
checks of years is rarely needed."""

AHEAD_MAX_MS = 60_000
"""How far clocks may differ, plus the rounding of stores."""

_SAME_SECOND_MAX = 16
"""Records of one second read at most: more than one are rare, and anyone with the right to create objects can create
any number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyRecord:
    """A check of one depth. `verified_at_ms`: the store's clock at its end. `commit` and `head_hash`: the newest usable
    commit (0 if none). `damaged`: the number of damaged or missing things; `ok`: none. `by`: who checked, according to
    the record; empty in records of earlier versions."""

    depth: str
    verified_at_ms: int
    ok: bool
    damaged: int
    commit: int
    head_hash: str
    by: str = ""


def put_verify_record(store: Store, layout: BackupLayout, record: VerifyRecord) -> None:
    """Store the record. Raises errors of the store."""
    key = layout.verify_key(record.depth, dated_id(record.verified_at_ms))
    store.put_if_absent(key, encode_object({"format": FORMAT, **verify_fields(record)}))


def last_verify_record(store: Store, layout: BackupLayout, depth: str, *, now_ms: int) -> VerifyRecord | None:
    """The record of the last check of that depth up to now, None without one. A record dated after `now_ms` was not
    written by a check of offsite. Raises `DamagedObject`."""
    prefix = layout.verifies_of_prefix(depth)
    recent = f"{prefix}{dated_id(max(0, now_ms - _RECENT_MS), '0')}"
    latest = f"{prefix}{dated_id(now_ms + AHEAD_MAX_MS, 'z')}"
    for after in (recent, ""):
        if keys := [info.key for info in own_objects(store.list(prefix, start_after=after)) if info.key < latest]:
            newest, _, _ = keys[-1].rpartition("-")
            candidates = (key for key in keys[-_SAME_SECOND_MAX:] if key.startswith(newest))
            return max((_get(store, key) for key in candidates), key=lambda record: record.verified_at_ms)
    return None


def verify_fields(record: VerifyRecord) -> dict[str, JsonValue]:
    """The record as JSON."""
    fields: dict[str, JsonValue] = {
        "depth": record.depth,
        "verified_at_ms": record.verified_at_ms,
        "ok": record.ok,
        "damaged": record.damaged,
        "commit": record.commit,
        "head_hash": record.head_hash,
    }
    return fields | ({"by": record.by} if record.by else {})


def parse_verify_record(document: JsonObject) -> VerifyRecord:
    """The record written by `verify_fields`. Raises errors of `document`."""
    return VerifyRecord(
        depth=document.text("depth"),
        verified_at_ms=document.count("verified_at_ms"),
        ok=document.flag("ok"),
        damaged=document.count("damaged"),
        commit=document.count("commit"),
        head_hash=document.text("head_hash"),
        by=document.text("by") if "by" in document.fields else "",
    )


def _get(store: Store, key: str) -> VerifyRecord:
    data = store.get(key)
    if data is None:
        raise DamagedObject(f"{key} is listed but cannot be read")
    document = parse_json_object(data, source=key, damaged=DamagedObject)
    record = parse_verify_record(document)
    if not key.rpartition("/")[2].startswith(dated_id(record.verified_at_ms, "-")[:-1]):
        raise document.wrong("verified_at_ms", "the time in its name")
    return record
