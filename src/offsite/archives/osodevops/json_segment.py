"""Segments of the tool's first versions: a JSON array of records, compressed as the suffix says. No checksum."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Iterator

from offsite.archives.osodevops.fields import NotTheTools, ToolObject
from offsite.archives.osodevops.segment import LZ4, NONE, ZSTD
from offsite.archives.osodevops.segment_body import BodyProblem, OnProblem, decompress_parts
from offsite.archives.osodevops.stored_file import StoredFile
from offsite.log.records.record import CREATE_TIME, Record
from offsite.model.bounds import MAX_OFFSET, MAX_RECORD_BYTES
from offsite.model.units import MIB
from offsite.model.untrusted.bounded_json import MAX_JSON_BYTES, BadJson, check_json_size

__all__ = ["is_json_segment", "read_json_records"]

BATCH_RECORDS = 2_000
_MAX_OUTSIDE_BYTES = 24 * MIB
"""Bytes outside of text in a whole segment; before parsing, a segment may be a single record."""
_SPACE = re.compile(r"[ \t\r\n]*+")


def is_json_segment(stored: StoredFile) -> bool:
    """Whether the file begins like a JSON segment; reads only the beginning."""
    try:
        first = next(_plain(stored), b"")
    except BodyProblem:
        return False
    return first.lstrip()[:1] == b"["


def read_json_records(stored: StoredFile, on_problem: OnProblem) -> Iterator[list[Record]]:
    """Yield the records before the first problem; the problem is reported with the byte in the plain file."""
    data = b"".join(_whole_parts(stored, on_problem))
    try:
        check_json_size(data, max_outside=_MAX_OUTSIDE_BYTES)
    except BadJson as error:
        on_problem(0, str(error))
        return
    text = data.decode("utf-8", "surrogateescape")
    del data
    decoder = json.JSONDecoder()
    position = _after_space(text, 0) + 1
    records: list[Record] = []
    problem = ""
    while not problem:
        position = _after_space(text, position)
        if text[position : position + 1] == "]":
            break
        try:
            value, end = decoder.raw_decode(text, position)
            records.append(_record(ToolObject.of(value, "a record")))
            if len(records) == BATCH_RECORDS:
                yield records
                records = []
        except (ValueError, RecursionError, NotTheTools) as error:
            problem = f"not a record: {error}"
            break
        position = _after_space(text, end)
        if text[position : position + 1] == ",":
            position += 1
        elif text[position : position + 1] != "]":
            problem = "the list of records is truncated"
    if records:
        yield records
    if problem:
        on_problem(len(text[:position].encode("utf-8", "surrogateescape")), problem)


def _whole_parts(stored: StoredFile, on_problem: OnProblem) -> Iterator[bytes]:
    size, is_wide = 0, False
    try:
        for part in _plain(stored):
            size += len(part)
            is_wide = is_wide or not part.isascii()
            if size > (MAX_JSON_BYTES if is_wide else MAX_RECORD_BYTES):
                on_problem(size, f"JSON of more than {size} bytes")
                return
            yield part
    except BodyProblem as problem:
        on_problem(size, str(problem))


def _plain(stored: StoredFile) -> Iterator[bytes]:
    suffix = stored.key.rpartition(".")[2]
    return decompress_parts({"zst": ZSTD, "lz4": LZ4}.get(suffix, NONE), stored.parts())


def _record(document: ToolObject) -> Record:
    headers = tuple((header.text("key"), _bytes(header, "value")) for header in document.children("headers"))
    offset, timestamp_ms = document.integer("offset"), document.integer("timestamp")
    if not 0 <= offset < MAX_OFFSET:
        raise NotTheTools(f"offset {offset} is impossible")
    return Record(offset, timestamp_ms, CREATE_TIME, _bytes(document, "key"), _bytes(document, "value"), headers)


def _bytes(document: ToolObject, name: str) -> bytes | None:
    if document.fields.get(name) is None:
        return None
    try:
        return b64decode(document.text(name), validate=True)
    except ValueError as error:
        raise NotTheTools(f"field {name!r} is not Base64: {error}") from error


def _after_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position
