"""An effect and its causes: the one shape that the rules of a consistent cut have.

A *line* is a level that only falls while a cut is searched for. An effect stands on some lines (`starts`), and has
causes: levels that lines have to reach (`needs`). Either all of them do, or the effect is not kept: then each line that
it stands on falls to its start. There are four kinds of lines:

| kind | one for each | level |
|---|---|---|
| `end` | partition | its end |
| `read` | partition | how far others may have read it: to the first record that is left out, or to the end |
| `producer` | producer | the number of its first transaction that is left out |
| `group` | group and partition | the position of the first of its transactional commits that is left out |

| rule | effect | stands on | needs |
|---|---|---|---|
| C1 | a committed transaction | `read`: its first records | `end`: beyond its markers |
| C1 | an undecided transaction | the same | what no cut has: `Effect.is_decided` is false |
| C2 | a committed transaction | the same | `read`: the offsets that it says it read to |
| C2' | both of these | `producer`: its number; `group`: its first commit | its number; its last commit |
| C3 | a participant's record | `end` and `read`: the record | `read`: its declared dependencies |
| C3 | a record behind the checkpoint, by its stamp | the same | what no cut has: `Effect.is_decided` is false |
| C7 | a record lost to the source's cleaner | `end` and `read`: where it stood | `end`: beyond its successor |

A transaction stands on no `end`: it is left out where it lies, and what others wrote behind it stays. A single record
cannot be left out, so the end steps back.

An **undecided** transaction lowers what may be read, although a restore leaves its records out anyway: once its marker
lands behind the end, somebody can read these records, and his own transaction then says that he read them. It would be
kept, since the offset it names lies below the end, and the records that it read would not be there.

An **aborted** transaction is no effect. No consumer of committed data ever sees its records, and a restore leaves them
out, whether or not the abort marker lies below the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from offsite.cut.window import (
    Outcome,
    ParticipantRecord,
    PartitionKey,
    Producer,
    StampedRecord,
    SupersededRecord,
    TransactionSpan,
    Window,
)

UNSEEN = 1 << 63
"""The end that a marker needs which nobody has seen: beyond Kafka's last offset, so no partition reaches it."""

Source = TransactionSpan | ParticipantRecord | StampedRecord | SupersededRecord


class Line(NamedTuple):
    """What a level belongs to: a partition, a producer, or a group and a partition that it reads."""

    kind: Literal["end", "read", "producer", "group"]
    of: PartitionKey | Producer | tuple[str, PartitionKey]


Levels = Mapping[Line, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What a cut keeps with all levels that it `needs`, or not at all. No cut may keep one that is not `is_decided`.
    `source` is what it was made from, for explanations."""

    source: Source
    starts: Levels
    needs: Levels
    is_decided: bool = True


def effects(window: Window) -> Iterator[Effect]:
    """The effects of a window: each of its rules C1, C2, C2', C3 and C7, once."""
    for transaction in window.transactions:
        if transaction.outcome is not Outcome.ABORT:
            yield Effect(
                source=transaction,
                starts=_starts(transaction),
                needs=_needs(transaction),
                is_decided=transaction.outcome is Outcome.COMMIT,
            )
    for record in window.records:
        needs = {Line("read", partition): end for partition, end in record.deps.items()}
        yield _record(record, record.partition, record.offset, needs)
    for stamped in window.stamped:
        yield replace(_record(stamped, stamped.partition, stamped.offset, {}), is_decided=False)
    for lost in window.superseded:
        yield _record(lost, lost.partition, lost.offset, {Line("end", lost.partition): lost.successor + 1})


def _record(source: Source, partition: PartitionKey, offset: int, needs: Levels) -> Effect:
    starts = {Line("end", partition): offset, Line("read", partition): offset}
    return Effect(source=source, starts=starts, needs=needs)


def _starts(transaction: TransactionSpan) -> Levels:
    starts = {Line("read", partition): written.first for partition, written in transaction.written.items()}
    starts[Line("producer", transaction.producer)] = transaction.number
    for read in transaction.reads:
        line = Line("group", (read.group, read.partition))
        starts[line] = min(starts.get(line, read.position), read.position)
    return starts


def _needs(transaction: TransactionSpan) -> Levels:
    needs = {
        Line("end", partition): UNSEEN if written.marker is None else written.marker + 1
        for partition, written in transaction.written.items()
    }
    needs[Line("producer", transaction.producer)] = transaction.number
    for read in transaction.reads:
        for line, level in (
            (Line("read", read.partition), read.offset),
            (Line("group", (read.group, read.partition)), read.position),
        ):
            needs[line] = max(needs.get(line, level), level)
    return needs
