"""The layout of an archive of JSON lines."""

from __future__ import annotations

from offsite.archives.archive_layout import ArchiveLayout
from offsite.archives.files import Files
from offsite.archives.indexed_archive import RECORDS_ONLY, IndexedArchive

__all__ = ["JSONL", "SUFFIXES", "jsonl_archive"]

JSONL = "jsonl"
SUFFIXES = {"none": ".jsonl", "gzip": ".jsonl.gz", "zstd": ".jsonl.zst"}
"""By compression."""


def jsonl_archive(files: Files, compression: str = "none") -> IndexedArchive:
    """Return the archive of JSON lines in `files`. `compression`: of written files; all compressions are read."""
    written = SUFFIXES[compression]
    suffixes = (written, *(suffix for suffix in SUFFIXES.values() if suffix != written))
    layout = ArchiveLayout(topics="topics/", suffixes=suffixes)
    return IndexedArchive(files=files, layout=layout, kinds={JSONL: (RECORDS_ONLY,)})
