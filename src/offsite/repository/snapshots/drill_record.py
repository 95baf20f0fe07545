"""The report of a drill, stored with the backup: a JSON document for scripts, and a page for people."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from offsite.model.errors import BadOption, DamagedObject
from offsite.model.units import parse_time
from offsite.model.untrusted.bounded_json import STRICT, BadJson, decode_object, with_digest
from offsite.model.untrusted.json_object import JsonObject, JsonValue
from offsite.repository.json_form import FORMAT, parse_json_object
from offsite.repository.layout import BackupLayout, own_objects
from offsite.repository.segments.body import content_hash
from offsite.stores.store import Store


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
    data = store.get(key)
    if data is None:
        raise DamagedObject(f"{key} is listed but cannot be read")
    return decode_drill_record(data, key)


def decode_drill_record(data: bytes, key: str) -> DrillRecord:
    """The key facts in the bytes of a report. Raises as `get_drill_record`."""
    document = _fields(data, key)
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
