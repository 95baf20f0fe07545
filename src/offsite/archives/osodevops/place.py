"""Finds the place of a backup below the archive's root: all keys begin with the backup's id.

The root may be the place given to the tool (a folder per backup), or the folder of the backup.
"""

from __future__ import annotations

import re

from offsite.archives.archive import Damage, OnDamage
from offsite.archives.files import Files, check_claims
from offsite.archives.osodevops.fields import NotTheTools
from offsite.archives.osodevops.manifest import Manifest
from offsite.log.range import TopicPartition
from offsite.model.errors import ArchiveNotFound

__all__ = ["MANIFEST", "SEGMENT_KEY", "SNAPSHOT", "find_prefix", "read_manifest", "segment_partition"]

MANIFEST = "manifest.json"
SNAPSHOT = "consumer-groups-snapshot.json"
ORPHANS_HINT = "segments without a manifest can be read by adopting orphans"
SEGMENT_KEY = re.compile(
    r"topics/(?P<topic>[^/]+)/partition=(?P<partition>\d{1,10})/segment-\d+\.(bin|json)(\.zst|\.lz4)?"
)


def find_prefix(files: Files, backup_id: str, *, needs_manifest: bool = True) -> str:
    """Return the prefix of the backup: empty, or ending in `/`. Raises `ArchiveNotFound` without a backup, or with
    several backups and no `backup_id`."""
    if backup_id:
        return _named(files, backup_id, needs_manifest=needs_manifest)
    if files.get_range(MANIFEST, 0, 1) is not None:
        return ""
    keys = [info.key for info in files.list()]
    prefixes = {key.removesuffix(MANIFEST) for key in keys if key.count("/") == 1 and key.endswith(f"/{MANIFEST}")}
    if not prefixes and not needs_manifest:
        prefixes = {key[: match.start()] for key in keys if (match := SEGMENT_KEY.search(key))}
    if len(prefixes) == 1:
        return prefixes.pop()
    if prefixes:
        names = ", ".join(sorted(prefix.rstrip("/") for prefix in prefixes))
        raise ArchiveNotFound(f"{files.url} has several backups: {names}", hint="choose one by its backup id")
    raise ArchiveNotFound(
        f"{files.url} has no {MANIFEST}, neither at the top nor one folder below",
        hint=ORPHANS_HINT,
    )


def read_manifest(files: Files, prefix: str, on_damage: OnDamage) -> Manifest | None:
    """Read the manifest; None for a missing manifest or, when `on_damage` returns, an unreadable manifest."""
    key = prefix + MANIFEST
    data = files.get(key)
    if data is None:
        return None
    try:
        return Manifest.parse(data, prefix=prefix)
    except NotTheTools as error:
        on_damage(Damage(file=key, position=error.position, problem=str(error)))
        return None


def segment_partition(key: str, prefix: str) -> TopicPartition | None:
    """Return the partition of a segment by its name; None for another file. Raises `DamagedArchive` for an impossible
    partition."""
    match = SEGMENT_KEY.fullmatch(key.removeprefix(prefix))
    if match is None:
        return None
    check_claims(key, partition=int(match["partition"]))
    return TopicPartition(topic=match["topic"], partition=int(match["partition"]))


def _named(files: Files, backup_id: str, *, needs_manifest: bool) -> str:
    prefix = f"{backup_id}/"
    if files.get_range(prefix + MANIFEST, 0, 1) is not None:
        return prefix
    manifest = read_manifest(files, "", lambda _: None)
    if manifest is not None and manifest.backup_id == backup_id:
        return ""
    if not needs_manifest and any(True for _ in files.list(prefix)):
        return prefix
    raise ArchiveNotFound(f"{files.url} has no manifest of a backup {backup_id!r}", hint=ORPHANS_HINT)
