"""Writes the archive of JSON lines: one range after the other into files of lines, see `line`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from offsite.archives.archive import ArchiveTopic, RangeWriter, Written
from offsite.archives.files import Files
from offsite.archives.jsonl.compression import compressor
from offsite.archives.jsonl.line import lines_of
from offsite.archives.jsonl.place import JSONL, jsonl_archive, jsonl_layout
from offsite.archives.losses import Losses
from offsite.archives.range_files import FILE_BYTES, RangeFiles
from offsite.archives.record_columns import RecordColumns
from offsite.log.buffer import Buffer
from offsite.log.group_offsets import GroupOffsets
from offsite.log.range import LogRange, TopicPartition

__all__ = ["JsonlWriter"]

_PART_BYTES = 1 << 20
"""Lines are compressed in parts of about this size, which stand for themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonlWriter:
    """An `ArchiveWriter`. Lines hold all of a record, so `lossy` changes nothing. `compression`: one of `COMPRESSIONS`,
    else it raises `BadOption`. A file ends near `file_bytes`, and lies in memory until then."""

    files: Files
    lossy: bool = False
    compression: str = "none"
    file_bytes: int = FILE_BYTES

    def __post_init__(self) -> None:
        compressor(self.compression)

    @property
    def divides(self) -> bool:
        return True

    def ends(self) -> Mapping[TopicPartition, int]:
        return jsonl_archive(self.files).ends(JSONL)

    def topic_ids(self) -> Mapping[str, str]:
        return jsonl_archive(self.files).topic_ids()

    def left_alone(self) -> tuple[str, ...]:
        return jsonl_archive(self.files).left_alone()

    def open(self, log_range: LogRange) -> RangeWriter:
        return RangeFiles(
            files=self.files,
            layout=jsonl_layout(self.compression),
            losses=Losses(log_range=log_range, lossy=self.lossy),
            new_file=lambda _: _LineFile(log_range.topic_partition, self.compression),
            file_bytes=self.file_bytes,
        )

    def finish(
        self, written: Sequence[Written], topics: Sequence[ArchiveTopic], groups: Mapping[str, GroupOffsets]
    ) -> tuple[str, ...]:
        jsonl_archive(self.files).finish(JSONL, written, topics, groups)
        return ()


class _LineFile:
    """One file in the making."""

    def __init__(self, of: TopicPartition, compression: str) -> None:
        self._of, self._compress = of, compressor(compression)
        self._parts: list[Buffer] = []
        self._waiting: list[bytes] = []
        self._waiting_bytes = self._plain_bytes = 0
        self.size_bytes = 0

    def add(self, columns: RecordColumns) -> None:
        lines = b"".join(lines_of(columns, self._of))
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
