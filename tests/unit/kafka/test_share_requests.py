"""Requests about share groups, in the bytes of Kafka's message definitions."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from offsite.kafka.protocol.groups import GroupAnswer
from offsite.kafka.protocol.share_groups import (
    alter_positions_request,
    delete_positions_request,
    describe_positions_request,
)
from offsite.kafka.protocol.wire import Decoder, Encoder
from offsite.log.group_offsets import CommittedOffset, GroupOffsets, TopicOffsets, restrict_to_topics
from offsite.log.range import TopicPartition

ID = UUID(int=7)
GROUP = GroupOffsets(
    group="workers",
    kind="share",
    topics=(TopicOffsets.of("jobs", [CommittedOffset(0, 40), CommittedOffset(2, 60)]),),
)


def test_all_positions_of_groups_are_requested() -> None:
    request = describe_positions_request(["a", "b"])
    assert (request.api, request.version, request.flexible) == (90, 0, True)
    assert request.body == b"\x03\x02a\x00\x00\x02b\x00\x00\x00"


def test_positions_of_an_answer_include_partitions_without_one() -> None:
    answer = Encoder(flexible=True).i32(0)

    def partition(out: Encoder, row: tuple[int, int]) -> None:
        out.i32(row[0]).i64(row[1]).i32(3).i16(0).string(None).end()

    def topic(out: Encoder, name: str) -> None:
        out.string(name).uuid(ID).array([(1, -1), (0, 40)], partition).end()

    def group(out: Encoder, described: tuple[str, list[str], int]) -> None:
        out.string(described[0]).array(described[1], topic).i16(described[2]).string(
            "why" if described[2] else None
        ).end()

    body = answer.array([("workers", ["jobs"], 0), ("hidden", [], 30)], group).end().done()
    answers = describe_positions_request(["workers", "hidden"]).parse(Decoder(memoryview(body), flexible=True))
    (jobs,) = answers["workers"].offsets
    assert list(jobs) == [CommittedOffset(0, 40), CommittedOffset(1, -1)]
    assert restrict_to_topics({"workers": replace(GROUP, topics=(jobs,))}, {"jobs": str(UUID(int=8))}) == {}
    assert answers["hidden"] == GroupAnswer(error_code=30)


def test_an_error_of_a_partition_is_of_that_partition_alone() -> None:
    def partition(out: Encoder, row: tuple[int, int, int]) -> None:
        out.i32(row[0]).i64(row[1]).i32(0).i16(row[2]).string("why" if row[2] else None).end()

    def topic(out: Encoder, name: str) -> None:
        out.string(name).uuid(ID).array([(0, 40, 0), (1, -1, 15)], partition).end()

    def group(out: Encoder, name: str) -> None:
        out.string(name).array(["jobs"], topic).i16(0).string(None).end()

    body = Encoder(flexible=True).i32(0).array(["workers"], group).end().done()
    answer = describe_positions_request(["workers"]).parse(Decoder(memoryview(body), flexible=True))["workers"]
    (jobs,) = answer.offsets
    assert list(jobs) == [CommittedOffset(0, 40), CommittedOffset(1, -1)]
    assert (answer.error_code, answer.codes) == (0, (15,))
    assert answer.unread == {TopicPartition(topic="jobs", partition=1): 15}


def test_positions_are_set_by_partition_and_removed_by_topic() -> None:
    alter = alter_positions_request(GROUP)
    assert alter.api == 91
    rows = (
        b"\x00\x00\x00\x00"
        + (40).to_bytes(8, "big")
        + b"\x00"
        + b"\x00\x00\x00\x02"
        + (60).to_bytes(8, "big")
        + b"\x00"
    )
    assert alter.body == b"\x08workers\x02\x05jobs\x03" + rows + b"\x00\x00"
    delete = delete_positions_request(GROUP)
    assert (delete.api, delete.body) == (92, b"\x08workers\x02\x05jobs\x00\x00")


def test_the_first_error_of_a_group_its_topics_and_partitions_counts() -> None:
    def partition(out: Encoder, code: int) -> None:
        out.i32(0).i16(code).string(None).end()

    def altered(out: Encoder, codes: list[int]) -> None:
        out.string("jobs").uuid(ID).array(codes, partition).end()

    def deleted(out: Encoder, code: int) -> None:
        out.string("jobs").uuid(ID).i16(code).string(None).end()

    body = Encoder(flexible=True).i32(0).i16(0).string(None).array([[0, 0], [0, 3]], altered).end().done()
    request = alter_positions_request(GROUP)
    assert request.parse(Decoder(memoryview(body), flexible=True)) == {"workers": GroupAnswer(error_code=3)}
    body = Encoder(flexible=True).i32(0).i16(68).string("it has members").array([], deleted).end().done()
    request = delete_positions_request(GROUP)
    assert request.parse(Decoder(memoryview(body), flexible=True)) == {"workers": GroupAnswer(error_code=68)}
