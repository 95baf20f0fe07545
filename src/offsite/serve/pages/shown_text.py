"""What strangers wrote, as bounded text for a page: keys, values and headers of records, decoded or byte by byte. The
templates escape it, and show characters that are not visible as escapes.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass

from offsite.model.names import amount
from offsite.model.units import format_time
from offsite.model.untrusted.text import printable
from offsite.schemas.shown_bytes import ShownBytes

HEX_MAX = 4_096
"""Bytes that are shown one by one."""
_ROW = 16
NULL = "null"
_FORMS = {"text": "text", "json": "JSON", "base64": "bytes, in hexadecimal digits"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownText:
    """`text`: at most as long as was asked for, with escapes. `schema`: what decoded it. `cut`: how much there is,
    where `text` is not all. `form`: the encoding, for a person."""

    text: str
    form: str = ""
    schema: str = ""
    cut: str = ""


def text_of(shown: ShownBytes | None, *, most: int, indent: int | None = None) -> ShownText:
    """The text of decoded bytes; JSON with `indent`."""
    if shown is None:
        return ShownText(text=NULL, form="no bytes")
    data = shown.data
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, indent=indent)
    text = f"hex:{base64.b64decode(text).hex()}" if shown.encoding == "base64" else text
    form = _FORMS.get(shown.encoding, shown.encoding)
    schema = str(shown.schema or "") or (f"schema id {shown.schema_id}?" if shown.schema_id is not None else "")
    lines = "\n".join(printable(line) for line in text[:most].split("\n"))
    cut = f"{len(text):,} characters" if len(text) > most or len(lines) > most else ""
    return ShownText(text=lines[:most], form=form, schema=printable(schema)[:most], cut=cut)


def text_in_json(shown: object, *, most: int) -> str:
    """The text of decoded bytes in the stored JSON of a search: `{"encoding": …, "data": …}`, or whatever is there."""
    if shown is None:
        return NULL
    data = shown.get("data") if isinstance(shown, Mapping) else shown
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    return f"{printable(text[:most])[:most]}{'…' if len(text) > most else ''}"


def hex_of(data: bytes | None) -> str:
    """The first bytes, sixteen in a line: position, hexadecimal digits, and the characters of ASCII."""
    rows = (data or b"")[:HEX_MAX]
    return "\n".join(_row(start, rows[start : start + _ROW]) for start in range(0, len(rows), _ROW))


def _row(start: int, row: bytes) -> str:
    characters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
    return f"{start:08x}  {row.hex(' '):<47}  {characters}"


def size_of(data: bytes | None) -> str:
    return NULL if data is None else amount(len(data), "byte")


def time_of(time_ms: int) -> str:
    """The time of a record; the producer need not give one, and may give any."""
    return "none" if time_ms == -1 else format_time(time_ms)
