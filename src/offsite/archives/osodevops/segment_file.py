"""Reads a segment file: the whole file is checked before the first record is returned, because the single CRC stands at
the end.

A file with a wrong CRC or hash returns nothing. A cut file, which has lost the CRC, returns the records before the cut,
after `on_damage` returned. Segments of the tool's first versions are a JSON array of records, compressed as the suffix
says, and have no CRC.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import dataclass, replace
from operator import lt

from offsite.archives.archive import Damage, OnDamage, read_while_usable
from offsite.archives.file_parts import FileSums, StoredFile
from offsite.archives.files import Files
from offsite.archives.osodevops.manifest import ListedSegment, NotTheTools, ToolObject
from offsite.archives.osodevops.segment import (
    FOOTER,
    FOOTER_BYTES,
    FOOTER_MAGIC,
    HEADER_BYTES,
    LZ4,
    MAGIC,
    NONE,
    VERSION,
    ZSTD,
    BodyProblem,
    OnProblem,
    SegmentHeader,
    decode_records,
    decompress_parts,
)
from offsite.log.records.record import CREATE_TIME, Record
from offsite.model.bounds import MAX_OFFSET, MAX_RECORD_BYTES
from offsite.model.units import MIB
from offsite.model.untrusted.bounded_json import MAX_JSON_BYTES, BadJson, check_json_size

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


def segment_at(files: Files, key: str, size_bytes: int) -> ListedSegment | None:
    """Describe an unlisted file by its own header; None for an invalid segment."""
    head = files.get_range(key, 0, HEADER_BYTES) or b""
    if head[:4] == MAGIC and len(head) == HEADER_BYTES:
        header = SegmentHeader.parse(head)
        if header.version == VERSION and 0 <= header.first_offset <= header.last_offset < MAX_OFFSET:
            return ListedSegment(key=key, start=header.first_offset, end=header.last_offset + 1, size_bytes=size_bytes)
        return None
    stored = StoredFile.open(files, key)
    if stored is None or not is_json_segment(stored):
        return None
    offsets = [record.offset for batch in read_json_records(stored, lambda _, __: None) for record in batch]
    return ListedSegment(key=key, start=min(offsets), end=max(offsets) + 1, size_bytes=size_bytes) if offsets else None


def read_segment(files: Files, segment: ListedSegment, on_damage: OnDamage) -> Iterator[list[Record]]:
    """Yield the records with offsets in `[segment.start, segment.end)`, rising, in file order.

    Raises the errors of `on_damage`; when `on_damage` returns, undamaged records follow.
    """

    def read(tell: OnDamage) -> Iterator[list[Record]]:
        return _Reading(files=files, segment=segment, on_damage=tell).records()

    return read_while_usable(read, segment.key, on_damage)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    files: Files
    segment: ListedSegment
    on_damage: OnDamage

    def records(self) -> Iterator[list[Record]]:
        stored = StoredFile.open(self.files, self.segment.key)
        if stored is None:
            self._tell(0, f"is missing; the manifest lists it for {self.segment.offsets}")
        elif stored.head[:4] == MAGIC:
            yield from self._binary(stored)
        elif is_json_segment(stored):
            if self._hash_is_right(stored.sums(FOOTER_BYTES)):
                yield from self._rising(read_json_records(stored, self._tell), records=self.segment.records)
        else:
            self._tell(0, f"begins with {stored.head[:4]!r}: not a segment")

    def _binary(self, stored: StoredFile) -> Iterator[list[Record]]:
        header = self._header(stored.head)
        if header is None:
            return
        sums = stored.sums(FOOTER_BYTES)
        body_end = self._body_end(sums)
        if body_end is None:
            return
        self._compare(header)
        plain = decompress_parts(header.compression, stored.parts(HEADER_BYTES, body_end))
        is_plain = header.compression == NONE
        yield from self._rising(
            decode_records(plain, lambda position, problem: self._tell_of_body(position, problem, is_plain=is_plain)),
            records=header.records,
        )

    def _header(self, head: bytes) -> SegmentHeader | None:
        if len(head) < HEADER_BYTES:
            self._tell(len(head), f"is truncated inside its header of {HEADER_BYTES} bytes")
            return None
        header = SegmentHeader.parse(head)
        if header.version != VERSION:
            self._tell(4, f"has version {header.version}; only {VERSION} is supported")
            return None
        if header.compression > LZ4:
            self._tell(5, f"has compression {header.compression}; supported are 0 to {LZ4}")
            return None
        return header

    def _body_end(self, sums: FileSums) -> int | None:
        """Return the end of the body; None for an untrusted file."""
        is_whole = sums.size_bytes >= HEADER_BYTES + FOOTER_BYTES and sums.tail[4:] == FOOTER_MAGIC
        if not is_whole:
            self._tell(sums.size_bytes, f"is truncated: no footer; the manifest lists it for {self.segment.offsets}")
            return sums.size_bytes
        crc = FOOTER.unpack(sums.tail)[0]
        if crc != sums.crc32:
            self._tell(sums.size_bytes - FOOTER_BYTES, f"fails its CRC-32: {sums.crc32:08x}, not {crc:08x}")
            return None
        return sums.size_bytes - FOOTER_BYTES if self._hash_is_right(sums) else None

    def _hash_is_right(self, sums: FileSums) -> bool:
        if self.segment.sha256 in ("", sums.sha256):
            return True
        self._tell(0, "differs from the file in the manifest: its SHA-256 is another")
        return False

    def _compare(self, header: SegmentHeader) -> None:
        header_segment = replace(self.segment, start=header.first_offset, end=header.last_offset + 1)
        if header_segment != self.segment:
            self._tell(16, f"has {header_segment.offsets}; the manifest lists it for {self.segment.offsets}")
        elif self.segment.records not in (-1, header.records):
            self._tell(8, f"has {header.records} records; the manifest lists {self.segment.records}")

    def _rising(self, batches: Iterator[list[Record]], *, records: int) -> Iterator[list[Record]]:
        """Yield only records inside the segment with rising offsets; then compare the count."""
        next_offset, end, count, is_told = self.segment.start, self.segment.end, 0, False
        for batch in batches:
            if _is_within(batch, next_offset, end):
                count += len(batch)
                next_offset = batch[-1].offset + 1
                yield batch
                continue
            in_order = []
            for record in batch:
                if next_offset <= record.offset < end:
                    in_order.append(record)
                    next_offset = record.offset + 1
                elif not is_told:
                    is_told = True
                    if in_order:  # given before the damage is told: who listens learns where it lies
                        yield in_order
                        in_order = []
                    self._tell(
                        HEADER_BYTES, f"offset {record.offset} is outside of the expected {next_offset} to {end - 1}"
                    )
            count += len(batch)
            if in_order:
                yield in_order
        if records not in (-1, count):
            self._tell(8, f"has {count} records instead of {records}")

    def _tell_of_body(self, position: int, problem: str, *, is_plain: bool) -> None:
        """Report a problem of the body. A position inside a compressed body is no position in the file."""
        where = HEADER_BYTES + position if is_plain else HEADER_BYTES
        self._tell(where, problem if is_plain else f"{problem} (byte {position} of the decompressed body)")

    def _tell(self, position: int, problem: str) -> None:
        self.on_damage(Damage(file=self.segment.key, position=position, problem=problem))


def _is_within(batch: list[Record], start: int, end: int) -> bool:
    """Whether the offsets of a batch rise and lie in `[start, end)`, as nearly always."""
    offsets = [record.offset for record in batch]
    return start <= offsets[0] and offsets[-1] < end and all(map(lt, offsets, offsets[1:]))
