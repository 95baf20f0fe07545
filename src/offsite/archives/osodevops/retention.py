"""Retention of backups of osodevops/kafka-backup: the manifest first, with the pruned ranges, like the tool.

The times in a manifest belong to the first and the last record, so retention never uses the times: an object written by
offsite stores the time, and of any other segment all records are read. Pruned ranges are named by offsets; the objects
of segments inside the ranges, no longer listed by the manifest, are deleted later.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from offsite.archives.archive import Damage, refuse_damage
from offsite.archives.files import FileInfo, Files
from offsite.archives.osodevops.manifest import (
    MANIFEST,
    ListedSegment,
    Manifest,
    NotTheTools,
    find_prefix,
    read_manifest,
    segment_partition,
)
from offsite.archives.osodevops.manifest_changes import PrunedRange, join_pruned, read_pruned_ranges, remove_segments
from offsite.archives.osodevops.reader import find_orphans
from offsite.archives.osodevops.segment_file import read_segment, segment_at
from offsite.archives.retention import (
    ArchiveFile,
    ExpiredObject,
    ExpiringFile,
    LastMessage,
    are_first,
    group_by_partition,
)
from offsite.log.range import TopicPartition
from offsite.model.errors import ArchiveBusy, DamagedArchive

_HINT = "nothing was deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class OsodevopsRetention:
    """The `RetentionArchive` of the format. `backup_id`: needed where the place holds several backups."""

    files: Files
    backup_id: str = ""

    def partitions(self) -> Sequence[Sequence[ArchiveFile]]:
        return _partitions(self._manifest())

    def settings(self) -> None:
        """Return None: the manifest has settings but no digest, and stores no topic ids."""

    def last_message(self, file: ArchiveFile) -> LastMessage:
        if (at_ms := self.files.last_message_ms(file.name)) is not None:
            return LastMessage(at_ms=at_ms, end=file.end)
        listed = (
            candidate
            for candidate in self._manifest().segments()
            if (candidate.key, candidate.start) == (file.name, file.start)
        )
        segment = next(listed, None)
        return LastMessage(at_ms=None, unknown="is no longer listed") if segment is None else _read(self.files, segment)

    def forget(self, going: Sequence[ExpiringFile], *, now_ms: int) -> Sequence[ExpiredObject]:
        def change(manifest: Manifest) -> Mapping[str, object]:
            if not are_first(going, _partitions(manifest)):
                raise ArchiveBusy(f"{self.files.url} has changed since the plan", hint="plan again")
            return remove_segments(manifest, going, now_ms=now_ms)

        if going:
            self._rewrite(change)
        return ()

    def expired(self) -> Sequence[ExpiredObject]:
        manifest = self._manifest()
        try:
            pruned = read_pruned_ranges(manifest)
        except NotTheTools as error:
            raise DamagedArchive(f"{manifest.prefix}{MANIFEST}: {error}", hint=_HINT) from error
        return tuple(self._unlisted(manifest, {info.key: info for info in self.files.list(manifest.prefix)}, pruned))

    def settle(self, gone: Collection[str], *, before_ms: int) -> None:
        """Join the ranges pruned before `before_ms`."""
        waiting_partitions = {
            expired_object.partition
            for expired_object in self.expired()
            if expired_object.since_ms <= before_ms and expired_object.key not in gone
        }
        self._rewrite(lambda manifest: join_pruned(manifest, before_ms=before_ms, but=waiting_partitions))

    def _unlisted(
        self, manifest: Manifest, infos: Mapping[str, FileInfo], pruned: Mapping[TopicPartition, Sequence[PrunedRange]]
    ) -> Iterator[ExpiredObject]:
        """Yield segments inside pruned ranges that existed at the time of pruning. A segment being written, and listed
        later, lies behind the ranges, unless its topic was recreated: then offsets start at 0 again."""
        for key in find_orphans(infos, manifest):
            of, info = segment_partition(key, manifest.prefix), infos[key]
            ranges = (
                [pruned_range for pruned_range in pruned.get(of, ()) if info.modified_ms <= pruned_range.at_ms]
                if of is not None
                else ()
            )
            segment = segment_at(self.files, key, info.size_bytes) if ranges else None
            if of is None or segment is None:
                continue
            since_ms = [
                pruned_range.at_ms
                for pruned_range in ranges
                if pruned_range.start <= segment.start and segment.end <= pruned_range.end
            ]
            if since_ms:
                yield ExpiredObject(key=key, partition=of, size_bytes=info.size_bytes, since_ms=max(since_ms))

    def _manifest(self) -> Manifest:
        prefix = find_prefix(self.files, self.backup_id)
        manifest = read_manifest(self.files, prefix, refuse_damage)
        if manifest is None:
            raise DamagedArchive(f"{self.files.url} no longer has {prefix}{MANIFEST}", hint=_HINT)
        return manifest

    def _rewrite(self, change: Callable[[Manifest], Mapping[str, object]]) -> None:
        """Rewrite the manifest. Raises `ArchiveBusy` when another process wrote first."""
        prefix = find_prefix(self.files, self.backup_id)
        data = self.files.get(prefix + MANIFEST) or b""
        try:
            manifest = Manifest.parse(data, prefix=prefix)
            new = change(manifest)
        except NotTheTools as error:
            raise DamagedArchive(f"{prefix}{MANIFEST} at byte {error.position}: {error}", hint=_HINT) from error
        if new == manifest.document.fields:
            return
        if not self.files.replace(prefix + MANIFEST, data, json.dumps(new, indent=2).encode()):
            raise ArchiveBusy(f"{prefix}{MANIFEST} was written by another process", hint="run the same command again")


def _partitions(manifest: Manifest) -> Sequence[Sequence[ArchiveFile]]:
    return tuple(
        group_by_partition(
            [
                ArchiveFile(
                    name=segment.key,
                    partition=of,
                    start=segment.start,
                    end=segment.end,
                    size_bytes=segment.size_bytes,
                    keys=(segment.key,),
                )
                for of, partition in manifest.partitions()
                for segment in partition.segments
            ]
        )
    )


def _read(files: Files, segment: ListedSegment) -> LastMessage:
    """Find the last message by reading the whole segment."""
    damages: list[Damage] = []
    newest_ms, oldest_ms = -1, 0
    for batch in read_segment(files, segment, damages.append):
        times_ms = [record.timestamp_ms for record in batch]
        newest_ms, oldest_ms = max(newest_ms, *times_ms), min(oldest_ms, *times_ms)
    if damages:
        return LastMessage(at_ms=None, unknown=f"its last message is unknown: {damages[0].problem}")
    if oldest_ms < 0:
        return LastMessage(at_ms=None, unknown="it has records without a time")
    return LastMessage(at_ms=newest_ms, end=segment.end)
