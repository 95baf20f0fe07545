"""Where an archive of JSON lines keeps what."""

from __future__ import annotations

from offsite.archives.archive_layout import ArchiveLayout
from offsite.archives.files import Files
from offsite.archives.indexed_archive import RECORDS_ONLY, IndexedArchive

__all__ = ["JSONL", "SUFFIXES", "jsonl_archive", "jsonl_layout"]

JSONL = "jsonl"
SUFFIXES = {"none": ".jsonl", "gzip": ".jsonl.gz", "zstd": ".jsonl.zst"}
"""By compression."""


def jsonl_layout(compression: str = "none") -> ArchiveLayout:
    """`compression` of what is written; all are read."""
    written = SUFFIXES[compression]
    return ArchiveLayout(topics="topics/", suffixes=(written, *(each for each in SUFFIXES.values() if each != written)))


def jsonl_archive(files: Files) -> IndexedArchive:
    return IndexedArchive(files=files, layout=jsonl_layout(), kinds={JSONL: (RECORDS_ONLY,)})
