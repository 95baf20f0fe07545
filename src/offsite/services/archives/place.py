"""An archive to read, as a person names it."""

from __future__ import annotations

from dataclasses import dataclass

from offsite.archives.archive import ArchiveReader
from offsite.archives.files import Files
from offsite.archives.formats import ReadOptions, open_reader
from offsite.stores.open_store import open_archive_files


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveSource:
    """`place` is its URL."""

    format: str
    files: Files
    reader: ArchiveReader

    @property
    def place(self) -> str:
        return self.files.url


def open_source(format_name: str, place: str, options: ReadOptions) -> ArchiveSource:
    """Touches nothing. Raises `BadOption`, `BadRepositoryUrl`."""
    files = open_archive_files(place)
    return ArchiveSource(format=format_name, files=files, reader=open_reader(format_name, files, options))
