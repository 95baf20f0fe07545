"""How long a restore may take, by the finished restores of the same backup. Without any, nothing is said.

A restore's record is written at its beginning, its report at its end: the store's times of both tell how long it took,
proof included. A drill is a restore. A restore that several processes worked on is left out: nobody knows how long it
stood still. Whoever may write into the repository may forge all of this: an estimate decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from offsite.model.errors import Damaged, FormatTooNew
from offsite.model.names import amount
from offsite.model.units import format_duration, format_size
from offsite.repository.backup import Backup
from offsite.repository.layout import own_objects
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.restores.record import find_record, get_outcome
from offsite.stores.store import ObjectInfo, Store

MEASURED_MAX = 3
"""The newest restores that count."""
_TRIED_MAX = 10
_FAR = 10
"""A restore of so many times the bytes is far from what was measured."""
_UNKNOWN = "unknown: no restore or drill of this backup has been finished by which it could be told"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRestore:
    """A finished restore: its bytes of log, and the seconds from its record to its report."""

    restore: str
    size_bytes: int
    took_s: float
    is_same_cluster: bool


def measured_restores(backup: Backup, cluster_id: str) -> tuple[MeasuredRestore, ...]:
    """The newest restores by which the time of another one into `cluster_id` can be told, the newest first: those into
    that cluster, if there are any. One listing, and a few reads. Raises the errors of the store."""
    store = backup.record_store
    measured = list(_measured(store, backup, cluster_id))
    same = [restore for restore in measured if restore.is_same_cluster]
    return tuple((same or measured)[:MEASURED_MAX])


def _measured(store: Store, backup: Backup, cluster_id: str) -> Iterator[MeasuredRestore]:
    for name, objects in sorted(_finished(store, backup).items(), reverse=True)[:_TRIED_MAX]:
        layout = RestoreLayout(backup=backup.layout, restore=name)
        took_s = (objects[layout.report_key].modified_ms - objects[layout.record_key].modified_ms) / 1000
        try:
            record, outcome = find_record(store, layout), get_outcome(store, layout)
        except (Damaged, FormatTooNew):
            continue
        if record is not None and outcome is not None and outcome.size_bytes and outcome.verified is not None:
            yield MeasuredRestore(
                restore=name,
                size_bytes=outcome.size_bytes,
                took_s=max(1.0, took_s),
                is_same_cluster=record.cluster_id == cluster_id,
            )


def _finished(store: Store, backup: Backup) -> Mapping[str, Mapping[str, ObjectInfo]]:
    """The objects by key of each restore that one process began and ended."""
    prefix = f"{backup.layout.prefix}restores/"
    by_restore: dict[str, dict[str, ObjectInfo]] = {}
    for info in own_objects(store.list(prefix)):
        name, _, rest = info.key.removeprefix(prefix).partition("/")
        if "/" not in rest or rest.startswith("lease/"):
            by_restore.setdefault(name, {})[info.key] = info
    return {name: objects for name, objects in by_restore.items() if _is_whole(backup, name, objects)}


def _is_whole(backup: Backup, name: str, objects: Mapping[str, ObjectInfo]) -> bool:
    layout = RestoreLayout(backup=backup.layout, restore=name)
    second_claim = layout.lease(backup.record_store).key(2, "claim")
    return layout.record_key in objects and layout.report_key in objects and second_claim not in objects


def describe_time(measured: Sequence[MeasuredRestore], size_bytes: int) -> str:
    """How long a restore of `size_bytes` of log may take, and by what that is told."""
    if not measured:
        return _UNKNOWN
    times_s = [restore.took_s * max(1.0, size_bytes / restore.size_bytes) for restore in measured]
    least, most = format_duration(min(times_s)), format_duration(max(times_s))
    last = measured[0]
    where = "" if last.is_same_cluster else ", into another cluster"
    basis = (
        f"by the last {amount(len(measured), 'restore')} or drills of this backup"
        if len(measured) > 1
        else "by the last restore or drill of this backup"
    )
    largest = max(restore.size_bytes for restore in measured)
    far = f"; a rough guess, as none had more than {format_size(largest)}" if size_bytes > _FAR * largest else ""
    return (
        f"{most if least == most else f'{least} to {most}'}, proof included, {basis} (the newest: "
        f"{format_size(last.size_bytes)} in {format_duration(last.took_s)}{where}){far}"
    )
