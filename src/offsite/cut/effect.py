"""An effect and its causes: the common shape of all rules of a consistent cut.

A *line* is a level that only falls while a cut is searched for. An effect stands on some lines (`starts`) and has
causes: levels that lines must reach (`needs`). If all lines reach their levels, the effect is kept. Otherwise every
line below the effect falls to its start. Four kinds of lines exist:

| kind | a line for every | level |
|---|---|---|
| `end` | partition | the end |
| `read` | partition | how far readers may have read: to the first left-out record, or to the end |
| `producer` | producer | the number of the first left-out transaction |
| `group` | group and partition | the position of the first left-out transactional commit |

| rule | effect | stands on | needs |
|---|---|---|---|
| C1 | a committed transaction | `read`: the first records | `end`: beyond the markers |
| C1 | an undecided transaction | the same | a level that no cut has: `Effect.is_decided` is false |
| C2 | a committed transaction | the same | `read`: the offsets up to which the transaction claims to have read |
| C2' | both of C1 and C2 | `producer`: the number; `group`: the first commit | the number; the last commit |
| C3 | a participant's record | `end` and `read`: the record | `read`: the declared dependencies |
| C3 | a record behind the checkpoint, by its stamp | the same | a level that no cut has: `Effect.is_decided` is false |
| C7 | a record lost to the source's cleaner | `end` and `read`: the offset | `end`: beyond the successor |

A transaction stands on no `end`: the records are left out in place, and later records of other writers stay. A single
record cannot be left out: the end steps back.

An **undecided** transaction lowers the `read` line, although a restore leaves its records out anyway. Once the marker
lands behind the end, a consumer can read the records, and the consumer's own transaction claims the reads. The
consumer's transaction would be kept, because its offset lies below the end, while the records it read would be missing.

An **aborted** transaction is no effect. No consumer of committed data ever sees the records, and a restore leaves them
out, wherever the abort marker lies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from offsite.cut.window import (
    ParticipantRecord,
    Producer,
    SpanOutcome,
    StampedRecord,
    SupersededRecord,
    TransactionSpan,
    Window,
)
from offsite.log.range import PartitionId

UNSEEN = 1 << 63
"""The end that an unseen marker needs: beyond Kafka's last offset, so no partition reaches the level."""

Source = TransactionSpan | ParticipantRecord | StampedRecord | SupersededRecord


class EffectLine(NamedTuple):
    """The owner of a level: a partition, a producer, or a group and a partition that the group reads."""

    kind: Literal["end", "read", "producer", "group"]
    of: PartitionId | Producer | tuple[str, PartitionId]


Levels = Mapping[EffectLine, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """An effect that a cut keeps if all levels in `needs` are reached, and otherwise leaves out. No cut keeps an effect
    that is not `is_decided`. `source`: the origin of the effect, for explanations."""

    source: Source
    starts: Levels
    needs: Levels
    is_decided: bool = True


def effects(window: Window) -> Iterator[Effect]:
    """The effects of a window: its rules C1, C2, C2', C3 and C7, once."""
    for transaction in window.transactions:
        if transaction.outcome is not SpanOutcome.ABORT:
            yield Effect(
                source=transaction,
                starts=_starts(transaction),
                needs=_needs(transaction),
                is_decided=transaction.outcome is SpanOutcome.COMMIT,
            )
    for record in window.records:
        needs = {EffectLine("read", partition): end for partition, end in record.deps.items()}
        yield _record(record, record.partition, record.offset, needs)
    for stamped in window.stamped:
        yield replace(_record(stamped, stamped.partition, stamped.offset, {}), is_decided=False)
    for lost in window.superseded:
        yield _record(lost, lost.partition, lost.offset, {EffectLine("end", lost.partition): lost.successor + 1})


def _record(source: Source, partition: PartitionId, offset: int, needs: Levels) -> Effect:
    starts = {EffectLine("end", partition): offset, EffectLine("read", partition): offset}
    return Effect(source=source, starts=starts, needs=needs)


def _starts(transaction: TransactionSpan) -> Levels:
    starts = {EffectLine("read", partition): written.first for partition, written in transaction.written.items()}
    starts[EffectLine("producer", transaction.producer)] = transaction.number
    for read in transaction.reads:
        line = EffectLine("group", (read.group, read.partition))
        starts[line] = min(starts.get(line, read.position), read.position)
    return starts


def _needs(transaction: TransactionSpan) -> Levels:
    needs = {
        EffectLine("end", partition): UNSEEN if written.marker is None else written.marker + 1
        for partition, written in transaction.written.items()
    }
    needs[EffectLine("producer", transaction.producer)] = transaction.number
    for read in transaction.reads:
        for line, level in (
            (EffectLine("read", read.partition), read.offset),
            (EffectLine("group", (read.group, read.partition)), read.position),
        ):
            needs[line] = max(needs.get(line, level), level)
    return needs
