"""An effect and its causes: the one shape that the rules of a consistent cut have.

An effect lies in some partitions, from an offset on in each (`starts`), and has causes (`needs`: the end that each
partition must reach at least). A cut keeps it with all of its causes, or it ends at or before every start. So:

| rule | effect | starts at | needs |
|---|---|---|---|
| C1 | a committed transaction | its first record in each partition | each of its markers |
| C1 | an undecided transaction | its first record in each partition | what no cut has: `Effect.is_decided` is false |
| C2 | the same committed transaction | the same | the offsets that it says it read to |
| C2 | an exactly-once commit of a transaction that nobody remembers | the commit itself | the offset that it says |
| C3 | a participant's record | the record | its declared dependencies |
| C7 | a record lost to the source's cleaner | where it stood | its successor |

An **undecided** transaction has to be stopped before, although a restore leaves its records out: once its marker lands
behind the end, somebody can read these records, and his own transaction then says that he read them. It would be kept,
since the offset it names lies below the end, and the records that it read would not be there.

An **aborted** transaction is no effect. No consumer of committed data ever sees its records; and a restore leaves out
aborted and undecided records alike (`log.committed_view`), so it does not matter whether the abort marker lies below
the end. To stop before it would cost offsets and win nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from offsite.cut.window import (
    Ends,
    GroupCommit,
    Outcome,
    ParticipantRecord,
    PartitionKey,
    SupersededRecord,
    TransactionSpan,
    Window,
)

UNSEEN = 1 << 63
"""The end that a marker needs which nobody has seen: beyond Kafka's last offset, so no partition reaches it."""

Source = TransactionSpan | GroupCommit | ParticipantRecord | SupersededRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What a cut keeps whole, with all ends that it `needs`, or not at all. No cut may keep one that is not
    `is_decided`. `source` is what it was made from, for explanations."""

    source: Source
    starts: Ends
    needs: Ends
    is_decided: bool = True


def effects(window: Window) -> Iterator[Effect]:
    """The effects of a window: each of its rules C1, C2, C3 and C7, once."""
    for transaction in window.transactions:
        if transaction.outcome is not Outcome.ABORT:
            yield _of_transaction(transaction)
    for commit in window.commits:
        if commit.exactly_once:
            yield Effect(source=commit, starts={commit.log: commit.position}, needs={commit.partition: commit.offset})
    for record in window.records:
        yield Effect(source=record, starts={record.partition: record.offset}, needs=record.deps)
    for lost in window.superseded:
        yield Effect(source=lost, starts={lost.partition: lost.offset}, needs={lost.partition: lost.successor + 1})


def _of_transaction(transaction: TransactionSpan) -> Effect:
    needs: dict[PartitionKey, int] = {
        partition: UNSEEN if written.marker is None else written.marker + 1
        for partition, written in transaction.written.items()
    }
    for read in transaction.reads:
        needs[read.partition] = max(needs.get(read.partition, 0), read.offset)
    return Effect(
        source=transaction,
        starts={partition: written.first for partition, written in transaction.written.items()},
        needs=needs,
        is_decided=transaction.outcome is Outcome.COMMIT,
    )
