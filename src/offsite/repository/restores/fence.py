"""Fences the writers of a restore: a producer id, and numbered attempts at each target partition.

An attempt is a create-only object, so each number has one owner. The number is the producer epoch of its owner: from
the first batch of a higher epoch on, brokers refuse the lower epochs (KIP-360). Numbers only rise, also when the target
topic is created again. The attempts must not be deleted while the restore is unfinished.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from offsite.log.range import TopicPartition
from offsite.model.errors import DamagedObject, WriterFenced
from offsite.model.ids import random_id
from offsite.repository.json_form import FORMAT, encode_object, parse_json_object
from offsite.repository.layout import own_objects
from offsite.repository.restores.layout import RestoreLayout
from offsite.stores.store import PutResult, Store

ATTEMPTS_MAX = 32_766
"""Producer epochs are signed 16-bit numbers, and brokers reserve the last one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFence:
    """The attempts at one target partition of one restore."""

    store: Store
    layout: RestoreLayout
    target: TopicPartition

    def take(self, *, by: str) -> int:
        """The next number, owned by the caller alone. Every earlier attempt is superseded from now on. `by` names the
        owner, for people. Raises `WriterFenced` if no numbers are left, and errors of the store."""
        number = self._newest() + 1
        while number <= ATTEMPTS_MAX:
            if self._create(number, by):
                return number
            number += 1
        raise WriterFenced(
            f"{self.target} had {ATTEMPTS_MAX:,} attempts: no producer epoch is left",
            hint="restore under another name with --rename",
        )

    def is_superseded(self, number: int) -> bool:
        """Whether an attempt after `number` has begun."""
        return self.store.head(self.layout.attempt_key(self.target, number + 1)) is not None

    def has_ended(self) -> bool:
        """Whether the restore has a report: no writer is needed any more."""
        return self.store.head(self.layout.report_key) is not None

    def _newest(self) -> int:
        keys = [info.key for info in own_objects(self.store.list(self.layout.attempts_prefix(self.target)))]
        return max((self.layout.attempt_number(key) for key in keys), default=0)

    def _create(self, number: int, by: str) -> bool:
        """The random word distinguishes our own put after a lost answer from another process's object."""
        data = encode_object({"format": FORMAT, "by": by, "word": random_id()})
        return self.store.put_if_absent(self.layout.attempt_key(self.target, number), data) is not PutResult.OTHER


def restore_producer_id(store: Store, layout: RestoreLayout, new: Callable[[], int]) -> int:
    """The producer id of this restore; `new` obtains one from the cluster on first use."""
    key = layout.producer_key
    data = store.get(key)
    if data is None:
        store.put_if_absent(key, encode_object({"format": FORMAT, "producer_id": new()}))
        data = store.get(key)  # another process may have been faster
    if data is None:
        raise DamagedObject(f"{key} was written but is missing", hint="run the same command again")
    return parse_json_object(data, source=key, damaged=DamagedObject).integer("producer_id")
