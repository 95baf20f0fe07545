"""One record in one line of text, safe for any terminal: what cannot be printed is escaped."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

from offsite.model.time import format_time
from offsite.model.untrusted.printable import printable

if TYPE_CHECKING:
    from offsite.services.records.shown_record import Shown, ShownRecord

NULL = "NULL"


def record_line(record: ShownRecord) -> str:
    """`topic/partition@offset  time  key  value  name=value …`."""
    time = format_time(record.timestamp_ms) if record.timestamp_ms >= 0 else "-"
    headers = [f"{printable(each.name)}={_shown(each.value)}" for each in record.headers]
    place = f"{record.topic}/{record.partition}@{record.offset}"
    return "  ".join([place, time, _shown(record.key), _shown(record.value), *headers])


def _shown(shown: Shown | None) -> str:
    if shown is None:
        return NULL
    match shown.encoding, shown.data:
        case "text", str(text):
            return printable(text)
        case "base64", str(data):
            schema = "" if shown.schema_id is None else f"schema {shown.schema_id}?:"
            return f"{schema}hex:{base64.b64decode(data).hex()}"
        case _, data:
            return printable(json.dumps(data, ensure_ascii=False))
