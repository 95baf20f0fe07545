"""Where an archive is imported to before it is restored: a backup of its own, which goes when all has succeeded.

Without a repository to use it lies in the user's cache, under a name that the archive decides: a command that failed
finds it again, and goes on.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from offsite.model.errors import Denied, RepositoryNotFound, StoreUnavailable
from offsite.repository.layout import BackupLayout
from offsite.repository.leftovers import Folder, folder_of, store_time_ms
from offsite.repository.open_store import open_store
from offsite.repository.repository import Repository
from offsite.repository.store import Store

_DIGITS = 16
_NAME = re.compile(rf"staging-[0-9a-f]{{{_DIGITS}}}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Staging:
    """`folder` is set when all of the repository is ours to remove."""

    repository: Repository
    backup: str
    folder: Path | None = None

    @property
    def place(self) -> str:
        return self.repository.store.url

    def remove(self) -> None:
        """Remove the backup, and nothing else of a repository that was given."""
        if self.folder is not None:
            shutil.rmtree(self.folder)
            return
        store = self.repository.store
        for info in list(store.list(BackupLayout(backup=self.backup).prefix)):
            store.delete(info.key)


def open_staging(place: str | None, *, format_name: str, archive: str) -> Staging:
    """The staging of `archive` (its URL), in the repository at `place`, which is made if there is none."""
    digest = hashlib.sha256(f"{format_name}\0{archive}".encode()).hexdigest()[:_DIGITS]
    folder = None if place else _cache() / digest
    if folder is not None:
        folder.parent.mkdir(parents=True, exist_ok=True)
    return Staging(repository=_opened(place or str(folder)), backup=f"staging-{digest}", folder=folder)


def staging_copies(repository: Repository, *, quiet_for_ms: int) -> Iterator[tuple[str, Folder]]:
    """The copies in `repository` and in this machine's cache to which nothing was added for `quiet_for_ms`, with their
    places. One may be there because it was to be kept. A cache that cannot be read is passed over: it is nobody's data.
    """
    for name in repository.backups():
        if _NAME.fullmatch(name):
            prefix = BackupLayout(backup=name).prefix
            yield from _if_quiet(repository.store, prefix, f"{repository.store.url}/{prefix}", quiet_for_ms)
    for folder in _cached():
        with suppress(StoreUnavailable, Denied):
            yield from _if_quiet(open_store(str(folder)), "", str(folder), quiet_for_ms)


def _if_quiet(store: Store, prefix: str, place: str, quiet_for_ms: int) -> Iterator[tuple[str, Folder]]:
    folder = folder_of(store, prefix)
    if folder.objects and folder.quiet_since_ms < store_time_ms(store, ()) - quiet_for_ms:
        yield place, folder


def _cached() -> Sequence[Path]:
    try:
        return sorted(each for each in _cache().iterdir() if each.is_dir())
    except OSError:
        return ()


def _opened(place: str) -> Repository:
    store = open_store(place)
    try:
        return Repository.open(store)
    except RepositoryNotFound:
        return Repository.init(store)


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "offsite" / "staging"
