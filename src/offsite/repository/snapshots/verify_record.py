"""The record of a check: that a backup was verified, how deep, and what was found. One small object for each check,
named by its time in seconds: the last one of a depth is one of those with the last name but for its end."""

from __future__ import annotations

from dataclasses import dataclass

from offsite.model.errors import DamagedObject
from offsite.model.ids import dated_id
from offsite.model.untrusted.json_object import JsonValue
from offsite.repository.json_form import FORMAT, encode_object, parse_json_object
from offsite.repository.layout import BackupLayout
from offsite.stores.store import Store

DEEP = "deep"
DEPTHS = ("quick", DEEP)

_RECENT_MS = 40 * 86_400_000
"""How far back the last check is looked for at first: most backups are checked at least monthly, and a list of all the
checks of years need not be read for that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyRecord:
    """A check of one depth. `verified_at_ms`: the store's clock at its end. `commit` and `head_hash`: the newest commit
    that could be used (0 where none could). `damaged`: how many things were damaged or gone; `ok` when none was."""

    depth: str
    verified_at_ms: int
    ok: bool
    damaged: int
    commit: int
    head_hash: str


def put_verify_record(store: Store, layout: BackupLayout, record: VerifyRecord) -> None:
    """Keep the record. Raises what the store raises."""
    fields: dict[str, JsonValue] = {
        "format": FORMAT,
        "depth": record.depth,
        "verified_at_ms": record.verified_at_ms,
        "ok": record.ok,
        "damaged": record.damaged,
        "commit": record.commit,
        "head_hash": record.head_hash,
    }
    key = layout.verify_key(record.depth, dated_id(record.verified_at_ms))
    store.put_if_absent(key, encode_object(fields))


def last_verify_record(store: Store, layout: BackupLayout, depth: str, *, now_ms: int) -> VerifyRecord | None:
    """The record of the last check of that depth, None where none was kept. Raises `DamagedObject`."""
    prefix = layout.verifies_of_prefix(depth)
    recent = f"{prefix}{dated_id(max(0, now_ms - _RECENT_MS), '0')}"
    for after in (recent, ""):
        if keys := [info.key for info in store.list(prefix, start_after=after)]:
            newest, _, _ = keys[-1].rpartition("-")
            return max(
                (_get(store, key) for key in keys if key.startswith(newest)), key=lambda each: each.verified_at_ms
            )
    return None


def _get(store: Store, key: str) -> VerifyRecord:
    data = store.get(key)
    if data is None:
        raise DamagedObject(f"{key} was listed and cannot be read")
    item = parse_json_object(data, source=key, damaged=DamagedObject)
    return VerifyRecord(
        depth=item.text("depth"),
        verified_at_ms=item.count("verified_at_ms"),
        ok=item.flag("ok"),
        damaged=item.count("damaged"),
        commit=item.count("commit"),
        head_hash=item.text("head_hash"),
    )
