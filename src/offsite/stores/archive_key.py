"""Names of files in an archive: its own indexes name them, so anything may stand there."""

from __future__ import annotations

from offsite.model.errors import DamagedArchive
from offsite.stores.store import is_key

__all__ = ["archive_key"]


def archive_key(key: str, place: str) -> str:
    """Return `key` if it names a file in the archive at `place`. Raises `DamagedArchive` for what leads elsewhere."""
    if not is_key(key):
        raise DamagedArchive(
            f"{key!r} is no name of a file in {place}", hint="the archive's own index names it: do not trust that"
        )
    return key
