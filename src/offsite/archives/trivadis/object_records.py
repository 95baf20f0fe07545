"""Reads the records of an object, in any form: checked against the name, in rising order of offsets.

The key of an object gives partition, first offset, and tree: two connectors archive compacted topics in turn, each
below a name of its own; some versions pad numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from offsite.archives.archive import Damage, OnDamage, ignore_damage, read_while_usable
from offsite.archives.avro.container import ContainerReader, read_header
from offsite.archives.decoding_process import DecodingEnded
from offsite.archives.file_parts import open_file
from offsite.archives.files import Files, check_claims
from offsite.archives.trivadis.line_file import read_rows_of_lines
from offsite.archives.trivadis.row import BYTES_PREFIX, BadRow, Row, parse_writer_schema, read_rows, unwrap_java_value
from offsite.log.records.record import CREATE_TIME, Record, RecordHeaders
from offsite.model.options import EmptyAs

_KEY = re.compile(r"(?P<topic>[^/]+)/(?:(?P<tree>[^/]+)/)?(?P<partition>\d{1,10})/(?P<name>[^/]+)")
_OCF = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)-(?P<start>\d{1,19})\.avro")
_LINES = re.compile(r"index-(?P<start>\d{1,19})\.avro-messages")
_NULL = EmptyAs.NULL
RESTORE_HEADERS = ("x-old-offset", "x-restored")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveObject:
    """An object of the archive. `start`: offset of the first record, by the name. `tree`: connector of a compacted
    topic, else empty. `is_lines`: from versions before June 2019, Base64 text instead of a container file."""

    key: str
    topic: str
    tree: str
    partition: int
    start: int
    size_bytes: int = 0
    is_lines: bool = False


def parse_key(key: str, size_bytes: int = 0) -> ArchiveObject | None:
    """Parse `key`; None for a foreign key. Raises `DamagedArchive` for an impossible number."""
    match = _KEY.fullmatch(key)
    if match is None:
        return None
    lines = _LINES.fullmatch(match["name"])
    container = _OCF.fullmatch(match["name"])
    if container and (container["topic"], int(container["partition"])) != (match["topic"], int(match["partition"])):
        return None
    named = lines or container
    if named is None:
        return None
    partition, start = int(match["partition"]), int(named["start"])
    check_claims(key, partition=partition, start=start)
    return ArchiveObject(
        key=key,
        topic=match["topic"],
        tree=match["tree"] or "",
        partition=partition,
        start=start,
        size_bytes=size_bytes,
        is_lines=lines is not None,
    )


Rows = Iterator[tuple[int, list[Row]]]


def is_wrapped(rows: Iterable[Row]) -> bool:
    """Whether every key and value of a file is a serialised `byte[]`; stops at the first exception."""
    has_rows = False
    for row in rows:
        if not all(blob is not None and blob.startswith(BYTES_PREFIX) for blob in (row.key, row.value)):
            return False
        has_rows = True
    return has_rows


class Restorer(NamedTuple):
    """Converts the archived rows of a file back into the records sent by producers.

    The tool stores null as empty, header values as Java objects in a map, and, in the summer of 2019, keys and values
    as Java objects too. The tool's restore adds two headers, removed here. `empty_as`: meaning of zero bytes; unused
    for wrapped values, because no wrapped value was null.
    """

    empty_as: EmptyAs
    is_wrapped: bool

    def record(self, row: Row) -> tuple[Record, list[str]]:
        """Return the record, and the names of headers with inconvertible values: the headers keep the Java stream."""
        unknown: list[str] = []
        headers = _without_restore_headers(_headers(row, unknown)) if row.headers else ()
        key, value = self._blob(row.key), self._blob(row.value)
        return Record(row.offset, row.timestamp_ms, CREATE_TIME, key, value, headers), unknown

    def _blob(self, blob: bytes | None) -> bytes | None:
        if blob and self.is_wrapped:
            plain = unwrap_java_value(blob)
            return blob if plain is None else plain
        return None if not blob and self.empty_as == _NULL else blob


def _headers(row: Row, unknown: list[str]) -> RecordHeaders:
    headers = []
    for name, stream in row.headers.items():
        plain = unwrap_java_value(stream)
        if plain is None:
            unknown.append(name)
        headers.append((name, stream if plain is None else plain))
    return tuple(headers)


def _without_restore_headers(headers: RecordHeaders) -> RecordHeaders:
    """Remove the headers of a restore. A restore puts both in front, but a map keeps no order: both must exist and hold
    numbers."""
    values = dict(headers)
    if not all((values.get(name) or b"").isdigit() for name in RESTORE_HEADERS):
        return headers
    return tuple(header for header in headers if header[0] not in RESTORE_HEADERS)


def read_object(
    files: Files, archived: ArchiveObject, *, empty_as: EmptyAs, on_damage: OnDamage
) -> Iterator[Sequence[Record]]:
    """Yield the records of an object. Raises the errors of `on_damage`; when `on_damage` returns, undamaged records
    follow."""

    def read(tell: OnDamage) -> Iterator[Sequence[Record]]:
        return _Reading(files=files, archived=archived, empty_as=empty_as, on_damage=tell).records()

    return read_while_usable(read, archived.key, on_damage)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    files: Files
    archived: ArchiveObject
    empty_as: EmptyAs
    on_damage: OnDamage

    def records(self) -> Iterator[Sequence[Record]]:
        batches = self._rising(self._rows(self.on_damage))
        first = next(batches, None)
        if first is None:
            return
        restorer = Restorer(self.empty_as, self._is_wrapped(first[1]))
        if restorer.is_wrapped:
            self._tell(0, "keys and values are Java-serialised bytes, and were unwrapped", is_note=True)
        unknown: list[tuple[str, int]] = []
        for position, rows in chain([first], batches):
            batch = []
            for row in rows:
                record, names = restorer.record(row)
                batch.append(record)
                if names and not unknown:
                    unknown.append((names[0], position))
            yield batch
        for name, position in unknown:
            problem = f"header values that are not text, bytes or numbers stay Java streams: {name!r} is the first"
            self._tell(position, problem, is_note=True)

    def _is_wrapped(self, first: list[Row]) -> bool:
        """Check the whole file. Only a file with a wrapped beginning is read twice; the main reading reports damage."""
        if not is_wrapped(first):
            return False
        batches = read_while_usable(self._rows, self.archived.key, ignore_damage)
        return is_wrapped(row for _, rows in batches for row in rows)

    def _rows(self, on_damage: OnDamage) -> Rows:
        if self.archived.is_lines:
            return read_rows_of_lines(self.files, self.archived.key, on_damage)
        return self._container_rows(on_damage)

    def _container_rows(self, on_damage: OnDamage) -> Rows:
        key = self.archived.key
        source = open_file(self.files, key, None, on_damage)
        header = None if source is None else read_header(source.window, key, on_damage)
        if source is None or header is None:
            return
        try:
            decoding = read_rows(parse_writer_schema(header.schema))
        except BadRow as error:
            on_damage(Damage(file=key, position=0, problem=str(error)))
            return
        for block in ContainerReader(source, header, on_damage).blocks():
            try:
                rows = decoding.decode(block.data, block.records)
            except DecodingEnded as error:
                problem = f"{error}: the rest is left out"
                on_damage(Damage(file=key, position=block.position, problem=problem))
                return
            except ValueError as error:
                problem = f"a block of {block.records} records is damaged: {error}"
                on_damage(Damage(file=key, position=block.position, problem=problem))
                continue
            yield block.position, rows

    def _rising(self, batches: Rows) -> Rows:
        """Yield only rows of the partition, from the offset in the name, with rising offsets."""
        next_offset = self.archived.start
        for position, rows in batches:
            in_order: list[Row] = []
            for row, following in zip(rows, [*rows[1:], None], strict=True):
                if problem := self._problem(row, following, next_offset):
                    if in_order:  # given before the damage is told: who listens learns where it lies
                        yield position, in_order
                        in_order = []
                    self._tell(position, problem)
                else:
                    in_order.append(row)
                    next_offset = row.offset + 1
            if in_order:
                yield position, in_order

    def _problem(self, row: Row, following: Row | None, next_offset: int) -> str:
        if (row.topic, row.partition) != (self.archived.topic, self.archived.partition):
            return f"has a record of {row.topic}/{row.partition}"
        if row.offset < next_offset or _is_astray(row, following, next_offset):
            return f"offset {row.offset} is out of order after {next_offset - 1}"
        return ""

    def _tell(self, position: int, problem: str, *, is_note: bool = False) -> None:
        self.on_damage(Damage(file=self.archived.key, position=position, problem=problem, is_note=is_note))


def _is_astray(row: Row, following: Row | None, next_offset: int) -> bool:
    """Whether only this row is wrong: a damaged offset may be too great, while later rows are right."""
    return following is not None and next_offset <= following.offset <= row.offset
