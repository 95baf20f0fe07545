"""The place of a foreign archive, as a person writes it, into its `Files`."""

from __future__ import annotations

from offsite.repository.archive_bucket import ArchiveBucket
from offsite.repository.archive_folder import ArchiveFolder
from offsite.repository.object_store import CloudStore
from offsite.repository.open_store import open_store


def open_archive_files(place: str) -> ArchiveFolder | ArchiveBucket:
    """The files at `place`: a folder or a URL, by the rules of `open_store`. Touches neither network nor disk.

    Raises `BadRepositoryUrl`.
    """
    store = open_store(place)
    return ArchiveBucket(store=store) if isinstance(store, CloudStore) else ArchiveFolder(root=store.root)
