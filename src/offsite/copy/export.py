"""A range of records → files of a foreign archive, in a worker. Nothing counts before the driver has finished it."""

from __future__ import annotations

from dataclasses import dataclass

from offsite.archives.archive import ArchiveWriter, Written
from offsite.copy.plan import OF_ONE_PARTITION
from offsite.copy.record_source import ExportTask, RecordSource
from offsite.log.chunk import Hole
from offsite.log.range import LogRange
from offsite.model.errors import OffsiteError


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportEnds:
    """The two ends of an export's copy, as they travel to the workers."""

    source: RecordSource
    writer: ArchiveWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportReceipt:
    """What one task did. `written` is None when nothing of its range can be exported yet. `undecided_from`: where an
    open transaction stopped it, or -1. `holes` were met on the way. `failed`: why the cluster did not let it be
    read."""

    range: LogRange
    written: Written | None
    holes: tuple[Hole, ...] = ()
    undecided_from: int = -1
    failed: OffsiteError | None = None


def export_range(task: ExportTask, *, ends: ExportEnds) -> ExportReceipt:
    """Write the task's records. May run twice: a range gives the same files each time. A partition of a cluster that
    cannot be read says so in its receipt, and keeps no other from being written.

    Raises `NotRepresentable`, and what the two ends raise.
    """
    try:
        return _export(task, ends)
    except OF_ONE_PARTITION as error:
        if task.chain is not None:  # of a backup, it is damage
            raise
        return ExportReceipt(range=task.range, written=None, failed=error)


def _export(task: ExportTask, ends: ExportEnds) -> ExportReceipt:
    stable = ends.source.stable_range(task)
    undecided_from = stable.end if stable.end < task.range.end else -1
    if not stable:
        return ExportReceipt(range=stable, written=None, undecided_from=undecided_from)
    holes: list[Hole] = []
    with ends.writer.open(stable) as writer:
        for item in ends.source.records(task, stable):
            if isinstance(item, Hole):
                holes.append(item)
            elif item:
                writer.append(item)
        written = writer.close()
    return ExportReceipt(range=stable, written=written, holes=tuple(holes), undecided_from=undecided_from)
