from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest

from offsite.log.records.record import Record
from offsite.model.errors import KeylessRecord
from offsite.points.point_in_time import PartitionChain
from offsite.points.source_view import SourceView
from offsite.repository.backup import Backup
from offsite.restore.write import repartition
from offsite.restore.write.plan import Repartition
from offsite.restore.write.repartition import interleave_batches, keyless_offset, partition_chooser
from offsite.restore.write.translate import TargetBatch
from offsite.stores.open_store import open_store
from tests.backups import PARTITIONS, new_backup, write_segment

END = 240


@pytest.fixture
def backup(tmp_path: Path) -> Backup:
    return new_backup(open_store(str(tmp_path)))


def chain(backup: Backup, number: int, borders: Sequence[int], *, end: int) -> PartitionChain:
    """A partition of `orders` in segments that end at `borders`."""
    source, ranges = PARTITIONS[number], pairwise((0, *borders))
    segments = [write_segment(backup.store, backup, source, low, high) for low, high in ranges]
    return PartitionChain(source=source, segments=tuple(segments), end=end)


def offsets_in_turns(backup: Backup, chains: Sequence[PartitionChain]) -> list[int]:
    views = [SourceView(each, backup.store, read_committed=True) for each in chains]
    return [record.offset for batch in interleave_batches(views, chains) for record in batch.records()]


def mixed(*, keyless_in_turn: bool) -> Repartition:
    return Repartition(target="orders", partitions=3, sources=(), keyless_in_turn=keyless_in_turn)


def record(key: bytes | None) -> Record:
    return Record(7, 0, 0, key, b"")


def test_the_order_follows_from_the_logs_not_from_the_segments(backup: Backup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repartition, "SLICE_OFFSETS", 60)
    orders = [
        offsets_in_turns(backup, [chain(backup, 0, first, end=END), chain(backup, 1, second, end=95)])
        for first, second in [((240,), (100,)), ((20, 50, 240), (10, 100)), ((70, 120, 200, 240), (30, 60, 90, 100))]
    ]
    assert orders[0] == orders[1] == orders[2]
    assert sorted(orders[0]) == sorted([*range(END), *range(95)])
    assert orders[0][:80] == [*range(60), *range(20)]  # partition 1 is shorter: its turns are, too


def test_keyless_records_go_round_and_keyed_ones_do_not_take_a_turn() -> None:
    place = partition_chooser(mixed(keyless_in_turn=True))
    keyed = place(record(b"k"))
    assert [place(record(key)) for key in (None, b"k", None, None, b"k", None)] == [0, keyed, 1, 2, keyed, 0]


def test_an_empty_key_is_a_key_and_none_is_not() -> None:
    place = partition_chooser(mixed(keyless_in_turn=False))
    assert place(record(b"")) in range(3)
    with pytest.raises(KeylessRecord, match="offset 7"):
        place(record(None))


@dataclass
class Taken:
    """As a writer of a target partition: what it takes."""

    batches: list[Sequence[Record]] = field(default_factory=list)

    def take(self, batch: TargetBatch) -> None:
        self.batches.append(batch.decoded())

    def finish(self) -> None: ...


@pytest.mark.parametrize(("batch_bytes", "counts"), [(1000, [9, 9, 2]), (5000, [20]), (10, [1] * 20)])
def test_new_batches_have_the_size_that_was_asked_for(batch_bytes: int, counts: list[int]) -> None:
    """Each of these records takes 104 bytes."""
    taken = Taken()
    batcher = repartition._Batcher(taken, batch_bytes=batch_bytes)  # type: ignore[arg-type]
    for _ in range(20):
        batcher.add(Record(0, 0, 0, b"k" * 8, b"v" * 64), 0)
    batcher.finish()
    assert list(map(len, taken.batches)) == counts


def test_a_log_whose_records_all_have_keys_is_found_to_have_none_without(backup: Backup) -> None:
    assert keyless_offset(chain(backup, 0, (END,), end=END), store=backup.store, read_committed=True) is None
