"""How the records of a chain are written otherwise than the backup has them: a value that travels with the chain, so
that the copy and the proof see the same changed records. Without such a value records are read as stored.

A reading changes bytes in records, and leaves their number, offsets, times and headers as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from typing import Protocol

from offsite.log.batch import BatchHeader
from offsite.log.difference import RecordDifference
from offsite.log.range import PartitionId
from offsite.log.records.record import Record
from offsite.stores.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftFields:
    """`fields` keys and values of one source partition that stay as they are for `reason`, though they may be of the
    kind that is changed. `first_offset`: of the first of them, at the source."""

    reason: str
    partition: int
    first_offset: int
    fields: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteCounts:
    """Numbers of keys and values: `changed`, those included that are the same afterwards, and `left`."""

    changed: int = 0
    left: tuple[LeftFields, ...] = ()

    @classmethod
    def sum(cls, counts: Iterable[RewriteCounts]) -> RewriteCounts:
        """All together; of each reason the first partition stands for all of them."""
        parts = list(counts)
        left = sorted(
            chain.from_iterable(part.left for part in parts), key=lambda fields: (fields.reason, fields.partition)
        )
        return cls(
            changed=sum(part.changed for part in parts),
            left=tuple(_sum(list(fields)) for _, fields in groupby(left, key=lambda fields: fields.reason)),
        )


NOTHING_CHANGED = RewriteCounts()


def _sum(left: Sequence[LeftFields]) -> LeftFields:
    return replace(left[0], fields=sum(fields.fields for fields in left))


class Rewriting(Protocol):
    """One reading of one chain, from its beginning."""

    @property
    def counts(self) -> RewriteCounts:
        """Of the batches so far."""

    @property
    def finding(self) -> RecordDifference | None:
        """Of a reading that proves: the first changed record that does not mean what it meant."""

    def change(
        self, batch: memoryview, header: BatchHeader, counted: Sequence[Record] | None
    ) -> Sequence[memoryview] | None:
        """What stands in the place of `batch`, in writable memory: batches with the same records, in their order. None:
        the batch stays. `counted`: the records that count; None: all of them. Raises `DamagedBatch`, and the errors of
        stores."""


def counts_of(rewritings: Iterable[Rewriting | None]) -> RewriteCounts:
    """What readings have counted so far, together."""
    return RewriteCounts.sum(rewriting.counts for rewriting in rewritings if rewriting is not None)


class RecordRewrite(Protocol):
    """A small frozen value without secrets. Equal ones make equal bytes, in every process and at every attempt."""

    def begin(self, source: PartitionId, records: Store, *, proves: bool) -> Rewriting:
        """A reading of the chain of `source`. `records`: the store of the restore's records. `proves`: compare what
        records mean before and after. Raises `DamagedObject`, and the errors of the store."""
