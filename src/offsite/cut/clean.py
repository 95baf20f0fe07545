"""Clean readings: those at which every transaction of a producer has all of its markers below the ends, or none.

A coordinator makes *prepare* durable before it sends a marker to anybody, and *complete* only after every marker is
below the high watermark of its partition (KIP-98). So while a transactional id prepares, some partitions may have the
marker and others not; at any other time none is half done. A reading looks at the coordinators (`Reading.before`), then
at the ends, then at the coordinators again (`Reading.after`). It is clean for a transactional id unless that was
preparing at any moment in between:

- *Complete* below `before`: the markers were there before any end was read. All lie below the ends.
- *Prepare* at or behind `after`: no marker was sent before the last end was read. None lies below the ends.

This is told by transactional id, not by producer id: one that has used up its epochs prepares with its old producer id
and completes with a new one (KIP-360, KIP-890), and no producer id ever serves two transactional ids.

`changes` have to be without holes: where compaction has taken a *prepare*, nobody sees that markers were on their way.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from offsite.cut.readings import Reading
from offsite.log.transaction_state import ListedTransaction, TransactionChange, TransactionStatus

_ALWAYS = 1 << 63
"""Behind every position."""

_COMPLETE = frozenset({TransactionStatus.COMPLETE_COMMIT, TransactionStatus.COMPLETE_ABORT})

# A listing shows what a coordinator has in memory, which it changes after the record is durable. So a listed *ongoing*
# may be a moment late, and its prepare lie just before `changes` begin: so coordinators are asked last, some requests
# behind the end where `changes` begin. The other two cannot be late in a way that counts: between them and a prepare
# lies an *ongoing* that the coordinator had to have in memory first.
_LISTED_QUIET = frozenset({TransactionStatus.EMPTY, TransactionStatus.ONGOING, TransactionStatus.DEAD}) | _COMPLETE

Changes = Sequence[TransactionChange]


def transactional_ids(changes: Iterable[TransactionChange], listed: Mapping[int, ListedTransaction]) -> dict[int, str]:
    """The transactional id of each producer id that is named. Of one transactional id the older producer id is first:
    one that is listed without a change had its last one before all of `changes`."""
    changed = {change.producer_id: change.transactional_id for change in changes if change.producer_id >= 0}
    before = {number: each.transactional_id for number, each in listed.items() if number not in changed}
    return before | changed


def clean_readings(
    readings: Sequence[Reading], changes: Changes, listed: Mapping[int, ListedTransaction]
) -> dict[str, tuple[int, ...]]:
    """The indexes of the clean readings of each transactional id that is named, rising. Unknown is not clean."""
    usable = _usable(readings)
    logs = {log for reading in readings for log in (*reading.before, *reading.after)}
    logs |= {change.log for change in changes}
    # Without any change in `changes` nobody knows the log of a transactional id, so a reading has to have them all.
    complete = tuple(number for number in usable if logs == readings[number].before.keys() & readings[number].after)
    clean = {each.transactional_id: complete for each in listed.values() if each.status in _LISTED_QUIET}
    clean |= {each.transactional_id: () for each in listed.values() if each.status not in _LISTED_QUIET}
    for name, own in _by_name(changes).items():
        pending, log = _preparing(own), own[0].log
        clean[name] = tuple(number for number in usable if _is_clean(readings[number], log, pending))
    return clean


def unclean(readings: Sequence[Reading], changes: Changes, listed: Mapping[int, ListedTransaction]) -> frozenset[str]:
    """The transactional ids that changed or were listed in the middle of a change, and have no clean reading yet: more
    readings may win one."""
    return frozenset(name for name, clean in clean_readings(readings, changes, listed).items() if not clean)


def unsettled(readings: Sequence[Reading], changes: Changes, listed: Mapping[int, ListedTransaction]) -> frozenset[str]:
    """The transactional ids for which more readings are worth it: those without a clean one, and those whose last clean
    one lies before the first of another.

    What comes before the first clean reading of a producer cannot be left out. It has read nothing that lies behind a
    later clean reading of another producer; behind an earlier one it may have, and then the cut would be refused.
    """
    clean = clean_readings(readings, changes, listed)
    begun = max((each[0] for each in clean.values() if each), default=0)
    return frozenset(name for name, each in clean.items() if not each or each[-1] < begun)


def _usable(readings: Sequence[Reading]) -> list[int]:
    """A reading without the end of a partition that the last one has says nothing about a marker there."""
    return [number for number, each in enumerate(readings) if readings[-1].ends.keys() <= each.ends.keys()]


def _by_name(changes: Changes) -> dict[str, list[TransactionChange]]:
    """By position: a transactional id has all of its records in one log."""
    found: defaultdict[str, list[TransactionChange]] = defaultdict(list)
    for change in changes:
        found[change.transactional_id].append(change)
    return found


def _preparing(changes: list[TransactionChange]) -> list[tuple[int, int]]:
    """From which to which position the transactional id was preparing; the latter does so no more.

    What it did before the first record follows from that record, since *complete* follows on *prepare* alone, and
    nothing but *complete* follows on it. A tombstone is written for empty and completed ones only.
    """
    found: list[tuple[int, int]] = []
    since = -1 if changes[0].status in _COMPLETE else None
    for change in changes:
        is_preparing = change.status is not None and change.status.is_preparing
        if is_preparing and since is None:
            since = change.position
        elif not is_preparing and since is not None:
            found.append((since, change.position))
            since = None
    return found if since is None else [*found, (since, _ALWAYS)]


def _is_clean(reading: Reading, log: int, pending: list[tuple[int, int]]) -> bool:
    before, after = reading.before.get(log), reading.after.get(log)
    if before is None or after is None:
        return False
    # Of all that began before `after`, the last one ended last.
    begun = bisect_left(pending, (after, -1))
    return begun == 0 or pending[begun - 1][1] < before
