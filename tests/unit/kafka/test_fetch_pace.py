"""A reader that is paced asks before each fetch, for no more than a portion, and tells what came."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from offsite.kafka.reader import PartitionReader
from offsite.log.range import LogRange
from tests.batches import make_batch
from tests.unit.kafka.scripted_leader import BLANK, TOPIC, ScriptedLeader, ScriptedRouter
from tests.virtual_time import VirtualClock

PORTION_BYTES = 20_000


@dataclass
class Purse:
    """Writes down what it is asked and told."""

    portion_bytes: int = PORTION_BYTES
    before: list[int] = field(default_factory=list)
    after: list[int] = field(default_factory=list)

    def before_fetch(self, size_bytes: int) -> None:
        assert len(self.before) == len(self.after), "a fetch is paid for while the one before it is under way"
        self.before.append(size_bytes)

    def after_fetch(self, size_bytes: int) -> None:
        self.after.append(size_bytes)


def test_each_fetch_is_paid_for_before_it_is_sent_and_settled_when_its_answer_is_there() -> None:
    purse, batches = Purse(), [make_batch(base) for base in (0, 10, 20)]
    leader = ScriptedLeader(batches)
    leader.script.append(BLANK)  # an answer without a batch is settled as well
    leader.configs = {"cleanup.policy": "compact"}
    router: Any = ScriptedRouter(leader)
    log_range = LogRange(topic=TOPIC.topic, partition=TOPIC.partition, start=0, end=30)
    list(PartitionReader(router, clock=VirtualClock(), pace=purse).read(log_range))
    assert purse.before == leader.asked_bytes
    assert len(purse.before) == len(purse.after) == 4
    assert purse.before[:2] == [PORTION_BYTES] * 2, "no batch is known yet"
    for asked, batch in zip(purse.before[2:], batches, strict=False):
        assert PORTION_BYTES - len(batch) < asked <= PORTION_BYTES
        assert asked % len(batch) == 0, "the last batch would come torn"
    assert sum(map(len, batches)) < sum(purse.after) < sum(map(len, batches)) + 4 * 100
