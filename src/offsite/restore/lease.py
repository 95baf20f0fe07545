"""The lease of a restore held by this process: announced to other processes, renewed during the work, given up at the
end.

Brokers fence partitions: a writer that was taken over cannot append (see `write.translate`).
Topics, settings and groups have no such fence. For these the lease is checked right before every change. Check and
change are two steps: every change must be harmless when done twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from offsite.engine.runner import OnProgress, RunProgress
from offsite.model.errors import OffsiteError, StoreDenied, StoreUnavailable
from offsite.model.ids import random_id
from offsite.model.journal import warned
from offsite.repository.backup import Backup
from offsite.repository.lease import Lease, LeaseRenewal, ProcessIdentity
from offsite.repository.local_memory import adopt, note_written
from offsite.repository.records_place import record_places, writing_records
from offsite.repository.removal import check_stays
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.restores.record import (
    RestoreOutcome,
    RestoreRecord,
    UnreadableRestore,
    encode_record,
    put_outcome,
    put_record,
    try_unfinished_restores,
)

_NOTHING_DONE = RestoreOutcome(records=0, size_bytes=0, verified=None, findings=(), partitions=())


class RestoreLease(LeaseRenewal):
    """The lease of a restore held by this process: one term. Call `check` right before every change that the fence of
    partitions does not cover: topics, settings and groups."""

    def watch_progress(self, on_progress: OnProgress | None) -> OnProgress:
        """The display `on_progress`, raising `RestoreTakenOver` soon after another process has taken over."""

        def show(progress: RunProgress) -> None:
            if self.lost is not None:
                raise self.lost
            if on_progress is not None:
                on_progress(progress)

        return show

    @property
    def last_keys(self) -> tuple[str, ...]:
        """Keys of the lease to delete last: while the claim exists, no other process begins."""
        return tuple(self.lease.key(self.claim.term, part) for part in ("beat", "claim"))


@contextmanager
def hold_restore_lease(
    backup: Backup, record: RestoreRecord, *, take_over: bool, adopts: bool = False
) -> Iterator[RestoreLease]:
    """A block in which this process holds the restore; `record` is stored at the start. `adopts`: another installation
    began the restore, and a person decided that this installation continues from the existing records.

    Raises `RestoreRunning` when another process holds the restore, unless `take_over`, or holds another restore into
    some of the same topics. An error inside the block that follows from a take-over becomes `RestoreTakenOver`.
    """
    mine, layout = ProcessIdentity.current(), RestoreLayout(backup=backup.layout, restore=record.restore)
    terms = _terms(backup, record.restore)
    with writing_records(backup):
        lease = RestoreLease(terms, terms.claim(mine, random_id(), take_over=take_over))
    try:
        _record_alone(backup, record, layout, mine)
        if adopts:
            adopt(backup.record_store, layout)
        yield lease
    except OffsiteError:
        with suppress(StoreUnavailable, StoreDenied):
            lease.check()
        raise
    finally:
        lease.give_up()


def _record_alone(backup: Backup, record: RestoreRecord, layout: RestoreLayout, mine: ProcessIdentity) -> None:
    """Of two restores that begin at the same time, the one planned later ends here, without any effect."""
    _check_others(backup, record, mine, earlier=False)
    is_new = backup.record_store.head(layout.record_key) is None
    note_written(backup.record_store, layout.record_key, encode_record(record))
    put_record(backup.record_store, layout, record)
    try:
        check_stays(backup)
        _check_others(backup, record, mine, earlier=True)
    except OffsiteError:
        if is_new:
            put_outcome(backup.record_store, layout, _NOTHING_DONE)
        raise


def _check_others(backup: Backup, record: RestoreRecord, mine: ProcessIdentity, *, earlier: bool) -> None:
    for place in record_places(backup):
        _check_others_in(place, record, mine, earlier=earlier)


def _check_others_in(place: Backup, record: RestoreRecord, mine: ProcessIdentity, *, earlier: bool) -> None:
    targets = {target for _, target in record.topics}
    for other in try_unfinished_restores(place.record_store, place.layout):
        if isinstance(other, UnreadableRestore):
            _check_unreadable(place, other, mine)
            continue
        if other.restore == record.restore or other.cluster_id != record.cluster_id:
            continue
        if earlier and (other.created_at_ms, other.restore) > (record.created_at_ms, record.restore):
            continue
        common = sorted(targets & {target for _, target in other.topics})
        terms = _terms(place, other.restore)
        if common and (holder := terms.readable_holder(asking=mine)) is not None:
            raise terms.held_by(
                holder, hint=f"it also writes into {', '.join(common[:3])}: wait for its end, or choose other names"
            )


def _check_unreadable(place: Backup, other: UnreadableRestore, mine: ProcessIdentity) -> None:
    """The destination of an unreadable restore is unknown. While a process holds it, the destination may be the same
    topics."""
    terms = _terms(place, other.restore)
    if (holder := terms.readable_holder(asking=mine)) is not None:
        raise terms.held_by(holder, hint=f"its topics are unknown ({other.problem}): wait for its end")
    warned("restore_unreadable", restore=other.restore, why=other.problem)


def _terms(place: Backup, restore: str) -> Lease:
    return RestoreLayout(backup=place.layout, restore=restore).lease(place.record_store)
