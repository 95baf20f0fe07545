"""Writes the archive of JSON lines: ranges in order into files of lines, see `line`."""

from __future__ import annotations

from dataclasses import dataclass

from offsite.archives.indexed_archive import IndexedArchive
from offsite.archives.indexed_writing import IndexedWriter, Losses, NewFile
from offsite.archives.jsonl.compression import make_compressor
from offsite.archives.jsonl.line import encode_lines
from offsite.archives.jsonl.place import JSONL, jsonl_archive
from offsite.log.buffer import Buffer
from offsite.log.range import TopicPartition
from offsite.log.records.record_columns import RecordColumns

__all__ = ["JsonlWriter"]

_PART_BYTES = 1 << 20
"""Lines are compressed in independent parts of about this size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonlWriter(IndexedWriter):
    """Writes JSON lines. Lines hold the whole record, so `lossy` changes nothing. Raises `BadOption` unless
    `compression` is in `COMPRESSIONS`."""

    compression: str = "none"

    def __post_init__(self) -> None:
        make_compressor(self.compression)

    @property
    def _archive(self) -> IndexedArchive:
        return jsonl_archive(self.files, self.compression)

    @property
    def _kind(self) -> str:
        return JSONL

    def _new_file(self, losses: Losses) -> NewFile:
        return lambda _: _LineFile(losses.log_range.topic_partition, self.compression)


class _LineFile:
    """Builds a file."""

    def __init__(self, of: TopicPartition, compression: str) -> None:
        self._of, self._compress = of, make_compressor(compression)
        self._parts: list[Buffer] = []
        self._waiting: list[bytes] = []
        self._waiting_bytes = self._plain_bytes = 0
        self.size_bytes = 0

    def add(self, columns: RecordColumns) -> None:
        lines = b"".join(encode_lines(columns, self._of))
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
