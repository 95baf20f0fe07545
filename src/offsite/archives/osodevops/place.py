"""Where below the archive's root one backup of the tool lies: its keys all begin with the backup's id.

The root may be the place that the tool was given (one folder for each backup), or the folder of the backup itself.
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
ORPHANS_HINT = "segments without a manifest can be taken by adopting orphans"
SEGMENT_KEY = re.compile(
    r"topics/(?P<topic>[^/]+)/partition=(?P<partition>\d{1,10})/segment-\d+\.(bin|json)(\.zst|\.lz4)?"
)


def find_prefix(files: Files, backup_id: str, *, needs_manifest: bool = True) -> str:
    """The prefix of the backup: empty, or ending in `/`. Raises `ArchiveNotFound` when there is none, or several and no
    `backup_id` to choose by."""
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
        raise ArchiveNotFound(f"{files.url} holds several backups: {names}", hint="choose one by its backup id")
    raise ArchiveNotFound(
        f"{files.url} holds no {MANIFEST}, neither itself nor one folder below",
        hint=ORPHANS_HINT,
    )


def read_manifest(files: Files, prefix: str, on_damage: OnDamage) -> Manifest | None:
    """The manifest; None when it is missing or, if `on_damage` takes that, unreadable."""
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
    """The partition that `key` is a segment of by its name; None for other files. Raises `DamagedArchive` for a
    partition that cannot be."""
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
    raise ArchiveNotFound(f"{files.url} holds no manifest of a backup {backup_id!r}", hint=ORPHANS_HINT)
