"""A position moves on positive evidence only: what a leader does not say is never taken for an answer."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from offsite.kafka.evidence import CONFIRMATIONS, GIVEN_UP_MAX_S, THROTTLED_MAX_S, TailLoss, judge_tail
from offsite.kafka.read_task import FIRST_FETCH_BYTES, ReadTask
from offsite.kafka.reader import PartitionReader
from offsite.log.range import LogRange
from offsite.model.errors import DamagedBatch, KafkaProtocolError, NoEvidence, SourceTruncated
from tests.batches import make_batch
from tests.unit.kafka.scripted_leader import (
    BEHIND,
    BLANK,
    GARBLED,
    LEFT_OUT,
    REDIRECTED,
    THROTTLED,
    TOPIC,
    Reading,
    ScriptedLeader,
    ScriptedRouter,
    read,
)
from tests.virtual_time import VirtualClock

COMPACTED = {"cleanup.policy": "compact"}
TIERED = {"cleanup.policy": "compact", "remote.storage.enable": "true"}


def log(*bases: int) -> list[bytes]:
    return [make_batch(base) for base in bases]


@pytest.mark.parametrize("silence", [BLANK, THROTTLED, LEFT_OUT, BEHIND])
@pytest.mark.parametrize("times", [2, 5, 40])
def test_silence_in_the_middle_of_a_log_only_costs_time(silence: str, times: int) -> None:
    leader = ScriptedLeader(
        log(0, 10, 20), script=deque(["", *[silence] * times]), configs={"cleanup.policy": "delete"}
    )
    assert read(leader, 0, 30) == Reading(bases=[0, 10, 20], throttles_ms=[2000] * (times * (silence == THROTTLED)))


@pytest.mark.parametrize("silence", [BLANK, THROTTLED, LEFT_OUT, BEHIND])
def test_silence_for_ever_fails_the_range_and_moves_nothing(silence: str) -> None:
    leader = ScriptedLeader(log(0, 10, 20), script=deque([""]), forever=silence)
    found = Reading()
    with pytest.raises(NoEvidence, match="from offset 10"):
        read(leader, 0, 30, into=found)
    assert (found.bases, found.others) == ([0], [])


def test_remote_storage_that_answers_late_is_not_taken_for_a_compacted_tail() -> None:
    leader = ScriptedLeader(log(0, 10), forever=BLANK, configs=TIERED)
    with pytest.raises(NoEvidence, match="was compacted and has remote storage, so either can be the cause"):
        read(leader, 0, 20, was_compacted=True)


def test_a_broker_that_compacts_remote_logs_some_day_proves_no_end_by_silence() -> None:
    """KIP-1272: both settings on one topic, which brokers refuse so far."""
    leader = ScriptedLeader(log(0, 10), high_watermark=40, configs=TIERED)
    reading = Reading()
    with pytest.raises(NoEvidence, match=r"from offset 20 on: .*has remote storage") as unproved:
        read(leader, 0, 40, into=reading)
    assert (reading.bases, reading.others) == ([0, 10], [])
    assert "write one record into the partition" in unproved.value.hint
    assert judge_tail({"remote.storage.enable": "true"}, was_compacted=False) is TailLoss.IMPOSSIBLE


def test_a_compacted_tail_is_a_gap_once_it_was_asked_for_again() -> None:
    leader = ScriptedLeader(log(0, 10), high_watermark=40, configs=COMPACTED)
    assert read(leader, 0, 40) == Reading(bases=[0, 10], others=[("compaction", 20, 40)])
    assert leader.asked.count(20) == 1 + CONFIRMATIONS


def test_a_compacted_topic_may_be_silent_for_a_moment() -> None:
    leader = ScriptedLeader(log(0, 10, 20), script=deque(["", *[BLANK] * CONFIRMATIONS]), configs=COMPACTED)
    assert read(leader, 0, 30) == Reading(bases=[0, 10, 20])


def test_empty_answers_count_only_in_a_row() -> None:
    between = [BLANK, THROTTLED, BLANK, BEHIND, BLANK, LEFT_OUT, BLANK]
    leader = ScriptedLeader(log(0, 10, 20), script=deque(["", *between]), configs=COMPACTED)
    assert read(leader, 0, 30).bases == [0, 10, 20]


def test_a_topic_that_was_compacted_once_may_lack_its_tail() -> None:
    leader = ScriptedLeader(log(0), high_watermark=15, configs={"cleanup.policy": "delete"})
    assert read(leader, 0, 15, was_compacted=True).others == [("compaction", 10, 15)]


def test_a_gap_is_known_by_the_batch_behind_it() -> None:
    leader = ScriptedLeader(log(20, 70, 120))
    assert read(leader, 0, 100) == Reading(
        bases=[20, 70], others=[("batch", 0, 20), ("batch", 30, 70), ("batch", 80, 100)]
    )


def test_a_range_in_which_there_is_nothing_is_known_by_the_batch_behind_it() -> None:
    assert read(ScriptedLeader(log(0, 200)), 50, 100) == Reading(others=[("batch", 50, 100)])


def test_what_the_leader_deleted_is_a_hole_up_to_the_log_start_it_tells() -> None:
    leader = ScriptedLeader(log(0, 10, 20), log_start=15)
    assert read(leader, 0, 30) == Reading(bases=[10, 20], others=[("retention", 0, 15)])


def test_the_batch_that_the_log_starts_in_belongs_to_the_range_before_where_that_may_have_read_it() -> None:
    leader = ScriptedLeader(log(0, 10, 20), log_start=15)
    assert read(leader, 12, 30, owns_start=False) == Reading(bases=[20], others=[("retention", 12, 15)])


def test_an_end_that_is_not_there_is_waited_for_and_never_a_hole() -> None:
    with pytest.raises(NoEvidence, match="high watermark is 10"):
        read(ScriptedLeader(log(0)), 0, 100)


def test_a_log_that_a_new_leader_cut_back_is_known_by_its_epochs() -> None:
    leader = ScriptedLeader(log(0, 10), epoch=7, epoch_ends={5: 13})
    with pytest.raises(SourceTruncated, match="cut back to 13"):
        read(leader, 0, 20, planned_epoch=5)


def test_a_new_leader_that_has_all_of_it_is_read_from() -> None:
    leader = ScriptedLeader(log(0, 10), epoch=7, epoch_ends={5: 20})
    assert read(leader, 0, 20, planned_epoch=5) == Reading(bases=[0, 10])


def test_a_batch_beyond_the_high_watermark_is_damage() -> None:
    with pytest.raises(DamagedBatch, match="high watermark 12"):
        read(ScriptedLeader(log(0, 10), high_watermark=12), 0, 12)


def test_an_answer_that_cannot_be_read_is_asked_for_once_more() -> None:
    leader = ScriptedLeader(log(0, 10, 20), script=deque(["", GARBLED]))
    assert read(leader, 0, 30) == Reading(bases=[0, 10, 20])
    with pytest.raises(KafkaProtocolError, match="unreadable"):
        read(ScriptedLeader(log(0, 10, 20), script=deque(["", GARBLED, GARBLED])), 0, 30)


def test_a_replica_that_the_leader_prefers_is_read_from() -> None:
    leader = ScriptedLeader(log(0, 10, 20), script=deque([REDIRECTED]))
    assert read(leader, 0, 30) == Reading(bases=[0, 10, 20])


def test_going_to_and_fro_between_a_leader_and_a_silent_replica_has_an_end() -> None:
    leader = ScriptedLeader(log(0, 10, 20), script=deque([REDIRECTED, BLANK] * 5000))
    with pytest.raises(NoEvidence, match="redirects readers to replica 2"):
        read(leader, 0, 30)


def test_under_a_quota_less_is_asked_for_at_once() -> None:
    leader = ScriptedLeader(log(0, 10), script=deque([THROTTLED] * 5))
    read(leader, 0, 20)
    assert leader.asked_bytes[0] == FIRST_FETCH_BYTES
    assert leader.asked_bytes[5] < FIRST_FETCH_BYTES / 3


def test_a_partition_that_was_waited_for_in_vain_is_not_waited_for_as_long_again() -> None:
    """Not by the other ranges of the run, whatever these wait for in between; but by a run of another day."""
    router: Any = ScriptedRouter(ScriptedLeader(log(0), forever=BLANK, high_watermark=100))
    task = ReadTask(range=LogRange(topic=TOPIC.topic, partition=TOPIC.partition, start=0, end=100))
    clock, waited_s = VirtualClock(), []
    for pause_s in (0, THROTTLED_MAX_S, 24 * 3600):
        clock.sleep(pause_s)
        began_s = clock.now_s
        with pytest.raises(NoEvidence):
            list(PartitionReader(router, clock=clock).read_task(task))
        waited_s.append(clock.now_s - began_s)
    assert waited_s[0] > 100
    assert waited_s[1] < GIVEN_UP_MAX_S + 3
    assert waited_s[2] > 100
