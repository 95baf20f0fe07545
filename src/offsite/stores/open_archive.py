"""The place of a foreign archive, as a person writes it, into its `Files`."""

from __future__ import annotations

from offsite.stores.archive_bucket import ArchiveBucket
from offsite.stores.archive_folder import ArchiveFolder
from offsite.stores.object_store import CloudStore
from offsite.stores.open_store import open_store


def open_archive_files(place: str) -> ArchiveFolder | ArchiveBucket:
    """The files at `place`: a folder or a URL, by the rules of `open_store`. Touches neither network nor disk.

    Raises `BadRepositoryUrl`.
    """
    store = open_store(place)
    return ArchiveBucket(store=store) if isinstance(store, CloudStore) else ArchiveFolder(root=store.root)
