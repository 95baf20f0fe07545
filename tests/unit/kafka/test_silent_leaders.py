from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from offsite.kafka.net.backoff import SILENT_MAX, SilentLeaders
from offsite.log.range import TopicPartition
from offsite.model.errors import DamagedBatch, KafkaTimeout, LeaderUnavailable, StoreUnavailable, StoreUnreachable

AWAY, SLOW = LeaderUnavailable("away"), KafkaTimeout("slow")


class Leaders:
    """Partition → its leader's id, or what asking for it raises."""

    def __init__(self, leaders: dict[int, int | Exception]) -> None:
        self.leaders, self.asked = leaders, 0

    def leader(self, where: TopicPartition) -> SimpleNamespace:
        self.asked += 1
        found = self.leaders[where.partition]
        if isinstance(found, Exception):
            raise found
        return SimpleNamespace(node_id=found)


def key(number: int) -> TopicPartition:
    return TopicPartition(topic="t", partition=number)


def silent(leaders: dict[int, int | Exception]) -> tuple[SilentLeaders, Leaders]:
    router: Any = Leaders(leaders)
    return SilentLeaders(router), router


def test_a_leader_counts_as_silent_after_a_few_partitions_and_no_other_does() -> None:
    leaders, _ = silent({0: 1, 1: 2, 2: 1, 3: 2, 4: 1})
    for number in (0, 2):
        assert leaders.refusal(key(number)) is None
        leaders.note_result(key(number), SLOW)
    assert SILENT_MAX == 2
    assert isinstance(leaders.refusal(key(4)), LeaderUnavailable)
    assert leaders.refusal(key(3)) is None


def test_one_that_answers_for_others_is_not_silent() -> None:
    leaders, _ = silent(dict.fromkeys(range(9), 1))
    for number in range(9):
        assert leaders.refusal(key(number)) is None
        leaders.note_result(key(number), None if number % 2 else AWAY)


def test_partitions_without_a_leader_are_those_of_one() -> None:
    leaders, _ = silent(dict.fromkeys(range(3), AWAY) | {3: 1})
    leaders.note_result(key(0), AWAY)
    leaders.note_result(key(1), AWAY)
    assert leaders.refusal(key(2)) is not None
    assert leaders.refusal(key(3)) is None


def test_a_cluster_that_is_away_is_not_asked_for_each_leader() -> None:
    leaders, router = silent(dict.fromkeys(range(64), SLOW))
    leaders.note_result(key(0), SLOW)
    leaders.note_result(key(1), SLOW)
    assert all(leaders.refusal(key(number)) for number in range(2, 64))
    assert router.asked == 1


def test_a_store_that_is_away_is_waited_for_a_few_times_and_damage_never_is() -> None:
    leaders, _ = silent(dict.fromkeys(range(9), 1))
    for number in range(3):
        leaders.note_result(key(number), DamagedBatch("damaged"))
    assert leaders.refusal(key(3)) is None
    for number in (3, 4):
        leaders.note_result(key(number), StoreUnreachable("away"))
    assert isinstance(leaders.refusal(key(5)), StoreUnavailable)
