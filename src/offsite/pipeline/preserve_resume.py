"""What an earlier attempt must have left in a partition, and whether it did: only then may the next one go on.

A transaction that stays open while nobody writes is aborted by its coordinator in the end (15 minutes unless brokers
say otherwise), and the marker takes an offset that belongs to something else. That is found here.
"""

from __future__ import annotations

from collections.abc import Mapping

from offsite.kafka.reader import PartitionReader
from offsite.kafka.routing import Router
from offsite.kafka.transactions import Slot
from offsite.log.chunk import Chunk
from offsite.log.control import control_type
from offsite.log.range import LogRange, TopicPartition
from offsite.model.errors import TransactionLost
from offsite.pipeline.preserve_pieces import Data, Outcome, Piece


class PassedOver:
    """The pieces of the source that are in the target already."""

    def __init__(self) -> None:
        self._first_offsets: dict[int, int] = {}
        self._outcomes: dict[int, bool] = {}
        self.has_transactions = False

    def add(self, piece: Piece) -> None:
        match piece:
            case Data(producer_id=None):
                pass
            case Data(start=start, producer_id=int(producer_id)):
                self._first_offsets.setdefault(producer_id, start)
                self.has_transactions = True
            case Outcome(start=start, producer_id=producer_id, committed=committed):
                self._first_offsets.pop(producer_id, None)
                self._outcomes[start] = committed
                self.has_transactions = True
            case _:
                self.has_transactions = True

    def take_up(self, recovered: Mapping[int, Slot], target: TopicPartition) -> dict[int, Slot]:
        """Source's producer id → the slot that holds its open transaction, out of those by first offset.

        Raises `TransactionLost` unless exactly these are open.
        """
        if sorted(recovered) != sorted(self._first_offsets.values()):
            raise _lost(target)
        return {producer_id: recovered[first] for producer_id, first in self._first_offsets.items()}

    def check_last_outcomes(self, router: Router, target: TopicPartition, *, start: int, end: int) -> None:
        """The control records at the end of the target are those of the source, or filler. Raises `TransactionLost`."""
        log_range = LogRange(topic=target.topic, partition=target.partition, start=max(0, start), end=end)
        for item in PartitionReader(router).read(log_range):
            for header in item.batches if isinstance(item, Chunk) else ():
                if header.is_control and isinstance(item, Chunk):
                    marker = control_type(header.view(item.data), header)
                    committed = marker is not None and marker.kind == "commit"
                    if self._outcomes.get(header.base_offset, committed) != committed:
                        raise _lost(target)


def _lost(target: TopicPartition) -> TransactionLost:
    return TransactionLost(
        f"transactions in {target} were ended by the brokers while this restore did not run",
        hint="delete the topic and run the same command again: it is written again from its beginning",
    )
