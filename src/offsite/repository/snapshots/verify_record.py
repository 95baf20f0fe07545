"""The record of a check: that a backup was verified, how deep, and what was found. One small object for each check,
named by its time in seconds: the last one of a depth is one of those with the last name but for its end."""

from __future__ import annotations

from dataclasses import dataclass

from offsite.model.errors import DamagedObject
from offsite.model.ids import dated_id
from offsite.model.untrusted.json_object import JsonObject, JsonValue
from offsite.repository.json_form import FORMAT, encode_object, parse_json_object
from offsite.repository.layout import BackupLayout, own
from offsite.stores.store import Store

DEEP = "deep"
DEPTHS = ("quick", DEEP)

_RECENT_MS = 40 * 86_400_000
"""How far back the last check is looked for at first: most backups are checked at least monthly, and a list of all the
checks of years need not be read for that."""

AHEAD_MAX_MS = 60_000
"""How far clocks may differ, and stores round."""

_SAME_SECOND_MAX = 16
"""How many records of one second are read: more than one are rare, and whoever may create objects can make any
number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyRecord:
    """A check of one depth. `verified_at_ms`: the store's clock at its end. `commit` and `head_hash`: the newest commit
    that could be used (0 where none could). `damaged`: how many things were damaged or gone; `ok` when none was. `by`:
    who checked, as the record claims; empty in those of earlier versions."""

    depth: str
    verified_at_ms: int
    ok: bool
    damaged: int
    commit: int
    head_hash: str
    by: str = ""


def put_verify_record(store: Store, layout: BackupLayout, record: VerifyRecord) -> None:
    """Keep the record. Raises what the store raises."""
    key = layout.verify_key(record.depth, dated_id(record.verified_at_ms))
    store.put_if_absent(key, encode_object({"format": FORMAT, **verify_fields(record)}))


def last_verify_record(store: Store, layout: BackupLayout, depth: str, *, now_ms: int) -> VerifyRecord | None:
    """The record of the last check of that depth up to now, None where none was kept. What is dated later than `now_ms`
    no check of ours wrote. Raises `DamagedObject`."""
    prefix = layout.verifies_of_prefix(depth)
    recent = f"{prefix}{dated_id(max(0, now_ms - _RECENT_MS), '0')}"
    latest = f"{prefix}{dated_id(now_ms + AHEAD_MAX_MS, 'z')}"
    for after in (recent, ""):
        if keys := [info.key for info in own(store.list(prefix, start_after=after)) if info.key < latest]:
            newest, _, _ = keys[-1].rpartition("-")
            there = (key for key in keys[-_SAME_SECOND_MAX:] if key.startswith(newest))
            return max((_get(store, key) for key in there), key=lambda each: each.verified_at_ms)
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


def verify_record(item: JsonObject) -> VerifyRecord:
    """The record that `verify_fields` wrote. Raises what `item` raises."""
    return VerifyRecord(
        depth=item.text("depth"),
        verified_at_ms=item.count("verified_at_ms"),
        ok=item.flag("ok"),
        damaged=item.count("damaged"),
        commit=item.count("commit"),
        head_hash=item.text("head_hash"),
        by=item.text("by") if "by" in item.fields else "",
    )


def _get(store: Store, key: str) -> VerifyRecord:
    data = store.get(key)
    if data is None:
        raise DamagedObject(f"{key} was listed and cannot be read")
    item = parse_json_object(data, source=key, damaged=DamagedObject)
    record = verify_record(item)
    if not key.rpartition("/")[2].startswith(dated_id(record.verified_at_ms, "-")[:-1]):
        raise item.wrong("verified_at_ms", "the time in its name")
    return record
