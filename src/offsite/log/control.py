"""Control batches: the markers that end transactions. Written by brokers only, seen by no consumer."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Literal

from offsite.log.batch import BatchHeader
from offsite.log.buffer import Buffer
from offsite.log.records.batch_records import iterate
from offsite.model.errors import DamagedBatch

__all__ = ["ControlMarker", "control_type"]

_KINDS: dict[int, Literal["abort", "commit"]] = {0: "abort", 1: "commit"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlMarker:
    """The outcome of a transaction in one partition, and the epoch of the coordinator that wrote it."""

    kind: Literal["abort", "commit"]
    coordinator_epoch: int


def control_type(batch: Buffer, header: BatchHeader) -> ControlMarker | None:
    """The marker in a control batch (KIP-98: key `version, type`, value `version, coordinator epoch`).

    None if it holds none: compaction has emptied the batch, or it is of a type that consumers ignore as well.
    """
    for record in iterate(batch, header):
        try:
            _, kind = struct.unpack_from(">hh", record.key or b"")
            if kind in _KINDS:
                _, coordinator_epoch = struct.unpack_from(">hi", record.value or b"")
                return ControlMarker(kind=_KINDS[kind], coordinator_epoch=coordinator_epoch)
        except struct.error as error:
            raise DamagedBatch(f"the control batch at offset {header.base_offset} is damaged inside") from error
    return None
