"""Reads and writes the archive of JSON lines, plain or in gzip or zstd: ranges in order into files of lines (see
`line`).

Files are written in parts with a checksum, and read through a bounded window, with or without index. Damage costs the
damaged lines; in a compressed file, everything behind the damage.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

from offsite.archives.archive import Damage, OnDamage
from offsite.archives.file_parts import FileWindow, SourceFile
from offsite.archives.files import Files
from offsite.archives.indexed.archive import RECORDS_ONLY, IndexedArchive
from offsite.archives.indexed.layout import ArchiveLayout
from offsite.archives.indexed.reading import FileFormat, IndexedReader
from offsite.archives.indexed.writing import IndexedWriter, Losses, NewFile
from offsite.archives.inflate import GZIP, ZSTD, BadStream, PlainPart, inflate
from offsite.archives.jsonl.line import BadLine, Decode, OtherFields, decode_line, encode_lines
from offsite.log.buffer import Buffer
from offsite.log.range import TopicPartition
from offsite.log.records.record import Record
from offsite.log.records.record_columns import RecordColumns
from offsite.model.bounds import MAX_RECORD_BYTES
from offsite.model.errors import BadOption
from offsite.model.schema_registry import RegistrySnapshot
from offsite.schemas.framing import FramedReader
from offsite.schemas.shown_bytes import show_framed

JSONL = "jsonl"
SUFFIXES = {"none": ".jsonl", "gzip": ".jsonl.gz", "zstd": ".jsonl.zst"}
"""By compression."""
COMPRESSIONS = tuple(SUFFIXES)
MAX_LINE_BYTES = MAX_RECORD_BYTES
_GZIP_WRAPPER = 16 + zlib.MAX_WBITS
_GZIP_LEVEL, _ZSTD_LEVEL = 1, 1  # a higher one costs more than all the rest of an export
_PLAIN_BYTES = 256 << 10
"""Read at a time from a plain file: about a thousand small records."""
MAX_BLANK_LINES = 1_000_000
"""Per file: compressed blank lines cost nothing, but take time."""
WRITE_IT_SO = (
    'write lines in the form of offsite: {"topic":…,"partition":…,"offset":…,"timestamp":…,"key":…,"value":…}, '
    "with null for missing values, and bytes that are not text in base64 as key64 and value64; put each topic and "
    "partition into its own folder"
)
"""Advice for lines of another tool."""
_PART_BYTES = 1 << 20
"""Lines are compressed in independent parts of about this size."""


def jsonl_archive(files: Files, compression: str = "none") -> IndexedArchive:
    """Return the archive of JSON lines in `files`. `compression`: of written files; all compressions are read."""
    written = SUFFIXES[compression]
    suffixes = (written, *(suffix for suffix in SUFFIXES.values() if suffix != written))
    layout = ArchiveLayout(topics="topics/", suffixes=suffixes)
    return IndexedArchive(files=files, layout=layout, kinds={JSONL: (RECORDS_ONLY,)})


class Lines(NamedTuple):
    """Adjoining lines without newlines. `position`: start of the first line in the file.

    In a compressed file, `position` is the start of the compressed bytes with the first line, and not `is_exact`.
    """

    position: int
    is_exact: bool
    lines: list[bytes]

    def position_of(self, line: int) -> int:
        return self.position + sum(len(text) + 1 for text in self.lines[:line]) if self.is_exact else self.position


def make_compressor(compression: str) -> Callable[[bytes], Buffer]:
    """Make a function that compresses parts of a file. Raises `BadOption` for a compression outside `COMPRESSIONS`."""
    if compression == "none":
        return bytes
    if compression == "gzip":
        return lambda plain: zlib.compress(plain, _GZIP_LEVEL, _GZIP_WRAPPER)
    if compression == "zstd":
        import zstandard

        return zstandard.ZstdCompressor(level=_ZSTD_LEVEL, write_checksum=True).compress
    raise BadOption(
        f"{compression!r} is not a compression for JSON lines", hint=f"choose one of {', '.join(COMPRESSIONS)}"
    )


def read_lines(source: SourceFile) -> Iterator[Lines]:
    """Yield all lines of a file; a line of more than `MAX_LINE_BYTES` comes in pieces. Raises `BadStream`."""
    window, key = source.window, source.key
    if key.endswith(SUFFIXES["none"]):
        return _split(_plain(window), is_exact=True)
    compression = GZIP if key.endswith(SUFFIXES["gzip"]) else ZSTD
    return _split(inflate(window.read, compression, promised_bytes=source.plain_bytes), is_exact=False)


def _split(parts: Iterator[PlainPart], *, is_exact: bool) -> Iterator[Lines]:
    start, unfinished, unfinished_bytes = 0, list[bytes](), 0
    for position, data in parts:
        *lines, last = data.split(b"\n")
        if lines:
            lines[0] = b"".join((*unfinished, lines[0]))
            unfinished = []
            yield Lines(start, is_exact, lines)
            start, unfinished_bytes = position + (len(data) - len(last) if is_exact else 0), 0
        unfinished.append(last)
        unfinished_bytes += len(last)
        if unfinished_bytes > MAX_LINE_BYTES:
            piece, unfinished = b"".join(unfinished), []
            yield Lines(start, is_exact, [piece])
            start, unfinished_bytes = position + (len(data) if is_exact else 0), 0
    if unfinished_bytes:
        yield Lines(start, is_exact, [b"".join(unfinished)])


def _plain(window: FileWindow) -> Iterator[PlainPart]:
    position = window.position
    while data := window.read(_PLAIN_BYTES):
        yield PlainPart(position, data)
        position = window.position


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonlReader(IndexedReader):
    @property
    def archive(self) -> IndexedArchive:
        return jsonl_archive(self.files)

    @property
    def _format(self) -> FileFormat:
        return _LineFiles()


class _LineFiles(FileFormat):
    """Reads a file."""

    def records(self, source: SourceFile, of: TopicPartition, on_damage: OnDamage) -> Iterator[Sequence[Record]]:
        must_be_checked, blank, unknown = source.intact is False, 0, set[str]()
        for lines in _lines(source, on_damage):
            batch: list[Record] = []
            for number, line in enumerate(lines.lines):
                if not line or line.isspace():
                    blank += 1
                    continue
                try:
                    record = decode_line(line, of, must_be_checked=must_be_checked, unknown=unknown)
                except BadLine as error:
                    if batch:  # records before the damage come first: the listener sees the place
                        yield batch
                        batch = []
                    unfit = WRITE_IT_SO if isinstance(error, OtherFields) else ""
                    position = lines.position_of(number)
                    on_damage(Damage(file=source.key, position=position, problem=str(error), unfit=unfit))
                    if unfit:
                        return
                    continue
                batch.append(record)
            yield batch
            if blank > MAX_BLANK_LINES:
                problem = f"more than {MAX_BLANK_LINES:,} empty lines: the rest is left out"
                on_damage(Damage(file=source.key, position=lines.position, problem=problem))
                return
        if unknown:
            problem = f"fields that are not read: {', '.join(sorted(unknown))}"
            on_damage(Damage(file=source.key, position=0, problem=problem, is_note=True))

    def checks_parts(self, source: SourceFile) -> bool:  # noqa: ARG002 - each line does, or is not taken
        return True


def _lines(source: SourceFile, on_damage: OnDamage) -> Iterator[Lines]:
    try:
        yield from read_lines(source)
    except BadStream as error:
        on_damage(Damage(file=source.key, position=error.position, problem=str(error)))


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonlWriter(IndexedWriter):
    """Writes JSON lines. Lines hold the whole record, so `lossy` changes nothing. `decode`: the schemas by which keys
    and values are decoded, too. Raises `BadOption` unless `compression` is in `COMPRESSIONS`."""

    compression: str = "none"
    decode: RegistrySnapshot | None = None

    def __post_init__(self) -> None:
        make_compressor(self.compression)

    @property
    def _archive(self) -> IndexedArchive:
        return jsonl_archive(self.files, self.compression)

    @property
    def _kind(self) -> str:
        return JSONL

    def _new_file(self, losses: Losses) -> NewFile:
        of = losses.log_range.topic_partition
        decode = None if self.decode is None else _decoder(self.decode, of.topic)
        return lambda _: _LineFile(of, self.compression, decode)


def _decoder(schemas: RegistrySnapshot, topic: str) -> Decode:
    framed = FramedReader(lambda: schemas)

    def decode(blob: bytes, is_key: bool) -> object:  # noqa: FBT001  # as `encode_lines` calls
        shown = show_framed(blob, framed, topic, is_key=is_key)
        return None if shown is None else asdict(shown)

    return decode


class _LineFile:
    """Builds a file."""

    def __init__(self, of: TopicPartition, compression: str, decode: Decode | None) -> None:
        self._of, self._compress, self._decode = of, make_compressor(compression), decode
        self._parts: list[Buffer] = []
        self._waiting: list[bytes] = []
        self._waiting_bytes = self._plain_bytes = 0
        self.size_bytes = 0

    def add(self, columns: RecordColumns) -> None:
        lines = b"".join(encode_lines(columns, self._of, self._decode))
        self._waiting.append(lines)
        self._waiting_bytes += len(lines)
        if self._waiting_bytes >= _PART_BYTES:
            self._end_part()

    def close(self) -> tuple[bytes, int]:
        self._end_part()
        return b"".join(self._parts), self._plain_bytes

    def _end_part(self) -> None:
        if self._waiting:
            part = self._compress(b"".join(self._waiting))
            self._parts.append(part)
            self.size_bytes += len(part)
            self._plain_bytes += self._waiting_bytes
            self._waiting, self._waiting_bytes = [], 0
