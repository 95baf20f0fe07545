"""The end of one partition's log as a cut needs it: the last markers, and what is still open."""

from __future__ import annotations

from dataclasses import dataclass

from offsite.log.markers import Marker
from offsite.log.transactions import OpenTransaction


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTail:
    """The markers of a partition from an offset on, by offset, and the transactions that are open at its end, by first
    offset. `Marker.first_offset` is -1 where the transaction's data was not seen: it may begin anywhere before."""

    markers: tuple[Marker, ...] = ()
    open: tuple[OpenTransaction, ...] = ()
