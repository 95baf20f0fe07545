"""The records of checks of a backup: depth and result of each `verify`, and the report of each drill.

One small object per check, named by its time in seconds. The last check of a depth is among the records with the last
name, apart from the name's random end. A drill has a JSON document for scripts, and a page for people.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from offsite.model.errors import BadOption, DamagedObject
from offsite.model.ids import dated_id
from offsite.model.units import parse_time
from offsite.model.untrusted.bounded_json import STRICT, BadJson, decode_object, with_digest
from offsite.model.untrusted.json_codec import Count, JsonCodec, Spare
from offsite.model.untrusted.json_object import JsonObject, JsonValue
from offsite.repository.json_form import FORMAT, encode_object, parse_json_object
from offsite.repository.layout import BackupLayout, own_objects
from offsite.repository.segments.body import content_hash
from offsite.stores.store import Store

DEEP = "deep"
DEPTHS = ("quick", DEEP)

RECENT_MS = 40 * 86_400_000
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
    verified_at_ms: Count
    ok: bool
    damaged: Count
    commit: Count
    head_hash: str
    by: Spare[str] = ""


VERIFY_RECORD = JsonCodec(VerifyRecord)


def put_verify_record(store: Store, layout: BackupLayout, record: VerifyRecord) -> None:
    """Store the record. Raises errors of the store."""
    key = layout.verify_key(record.depth, dated_id(record.verified_at_ms))
    store.put_if_absent(key, encode_object({"format": FORMAT, **VERIFY_RECORD.write(record)}))


def last_verify_record(store: Store, layout: BackupLayout, depth: str, *, now_ms: int) -> VerifyRecord | None:
    """The record of the last check of that depth up to now, None without one. A record dated after `now_ms` was not
    written by a check of offsite. Raises `DamagedObject`."""
    for since_ms in (now_ms - RECENT_MS, 0):
        if keys := verify_keys(store, layout, depth, since_ms=since_ms, now_ms=now_ms):
            newest, _, _ = keys[-1].rpartition("-")
            candidates = (key for key in keys[-_SAME_SECOND_MAX:] if key.startswith(newest))
            return max((get_verify_record(store, key) for key in candidates), key=lambda record: record.verified_at_ms)
    return None


def verify_keys(store: Store, layout: BackupLayout, depth: str, *, since_ms: int, now_ms: int) -> list[str]:
    """The keys of the checks of that depth from `since_ms` to now, ascending by time (epoch ms)."""
    prefix = layout.verifies_of_prefix(depth)
    earliest, latest = f"{prefix}{dated_id(max(0, since_ms), '0')}", f"{prefix}{dated_id(now_ms + AHEAD_MAX_MS, 'z')}"
    return [info.key for info in own_objects(store.list(prefix, start_after=earliest)) if info.key < latest]


def get_verify_record(store: Store, key: str) -> VerifyRecord:
    """The record at `key`. Raises `DamagedObject`."""
    data = store.get(key)
    if data is None:
        raise DamagedObject(f"{key} is listed but cannot be read")
    document = parse_json_object(data, source=key, damaged=DamagedObject)
    record = VERIFY_RECORD.read(document)
    if not key.rpartition("/")[2].startswith(dated_id(record.verified_at_ms, "-")[:-1]):
        raise document.wrong("verified_at_ms", "the time in its name")
    return record


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillRecord:
    """The key facts of a report: when the drill ended (the store's clock), whether the backup was proven (None: nothing
    was compared), and who ran the drill, according to the report."""

    drill: str
    ended_ms: int
    proven: bool | None
    by: str = ""


def put_drill_report(
    store: Store, layout: BackupLayout, drill: str, document: Mapping[str, JsonValue], page: str
) -> dict[str, bytes]:
    """Store page and document. The page comes first, because the document names its hash. Returns the stored bytes, by
    suffix."""
    shown = page.encode()
    fields = {**document, "format": FORMAT, "page_hash": content_hash(shown)}
    stored = {"html": shown, "json": with_digest((json.dumps(fields, indent=2) + "\n").encode("ascii"))}
    for suffix, data in stored.items():
        store.put_if_absent(layout.drill_key(drill, suffix), data)
    return stored


def drill_keys(store: Store, layout: BackupLayout) -> list[str]:
    """The keys of the reports, newest drill first: drills are named by their start time."""
    keys = [info.key for info in own_objects(store.list(layout.drills_prefix)) if info.key.endswith("/report.json")]
    return sorted(keys, reverse=True)


def get_drill_record(store: Store, key: str) -> DrillRecord:
    """The key facts of the report at `key`. Raises `DamagedObject`, `FormatTooNew`."""
    return decode_drill_record(_report(store, key), key)


def get_drill_document(store: Store, key: str) -> JsonObject:
    """The report at `key`. Raises `DamagedObject`, `FormatTooNew`."""
    return _fields(_report(store, key), key)


def _report(store: Store, key: str) -> bytes:
    data = store.get(key)
    if data is None:
        raise DamagedObject(f"{key} is listed but cannot be read")
    return data


def decode_drill_record(data: bytes, key: str) -> DrillRecord:
    """The key facts in the bytes of a report. Raises as `get_drill_record`."""
    return drill_record(_fields(data, key), key)


def drill_record(document: JsonObject, key: str) -> DrillRecord:
    """The key facts of a report. Raises as `get_drill_record`."""
    try:
        ended_ms = parse_time(document.text("ended"), now_ms=0)
    except BadOption as error:
        raise DamagedObject(f"{key}: {error.message}") from error
    by = document.text("by") if "by" in document.fields else ""
    return DrillRecord(drill=key.split("/")[-2], ended_ms=ended_ms, proven=read_proven(document), by=by)


def read_proven(document: JsonObject) -> bool | None:
    """Whether a report states that the backup was proven. Raises errors of `document`."""
    return None if document.fields.get("proven") is None else document.flag("proven")


def _fields(data: bytes, key: str) -> JsonObject:
    """Earlier versions stored the report as printed for scripts: without format and digest."""
    try:
        fields = decode_object(data, decoder=STRICT)
    except BadJson as error:
        raise DamagedObject(f"{key}: {error}") from error
    if fields.keys() & {"format", "digest"}:
        return parse_json_object(data, source=key, damaged=DamagedObject)
    return JsonObject(fields=fields, damaged=lambda problem: DamagedObject(f"{key}: {problem}"))
