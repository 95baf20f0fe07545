"""What brokers answer around data, as targets: the frame of an answer, Fetch and Produce, a whole stream of fetches."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NoReturn
from unittest.mock import patch
from uuid import UUID

from offsite.kafka.evidence import batch_window
from offsite.kafka.protocol.fetch import ID_VERSION, FetchFormat
from offsite.kafka.protocol.metadata import metadata_request
from offsite.kafka.protocol.produce import VERSION as PRODUCE_VERSION
from offsite.kafka.protocol.produce import ProduceFormat
from offsite.kafka.protocol.wire import UNREADABLE
from offsite.log.batch import verify_crc
from offsite.log.range import LogRange
from offsite.model.errors import KafkaUnreachable
from tests.batches import make_batch
from tests.fuzz.corpus_kafka import HERE, unopened
from tests.fuzz.kafka_answers import ANSWERED_ID, answer
from tests.fuzz.reading import Reading
from tests.fuzz.target import Files, Target, Trust
from tests.unit.kafka import scripted_leader


def frame() -> Target:
    """An answer off the socket: its size and its number come before anything else."""
    body = answer("MetadataResponse", 8, {})

    def read(files: Files) -> Reading:
        found, connection = Reading(), unopened([files["frame"]])
        connection._unanswered.append(1)
        with found.part():
            found.data["answer"] = connection._parse(metadata_request(None, version=8), connection.receive())
        return found

    size = (len(body) + 4).to_bytes(4)
    return Target(files={"frame": size + (1).to_bytes(4) + body}, read=read, trust=Trust.WIRE)


def produced() -> Target:
    """The acknowledgement of a batch, as the writer takes it."""
    values = {"Name": "orders", "Index": 0, "BatchIndex": 0}
    data = answer("ProduceResponse", PRODUCE_VERSION, values)
    acknowledged = ProduceFormat(HERE, transactional_id=None, timeout_ms=1)

    def read(files: Files) -> Reading:
        found = Reading()
        with found.part():
            try:
                found.data["answer"] = acknowledged.decode(memoryview(files["answer"]))
            except UNREADABLE as error:  # what the writer turns into an error of ours
                found.named.append(f"unreadable: {error}")
        return found

    return Target(files={"answer": data}, read=read, trust=Trust.WIRE)


def fetched_by_id() -> Target:
    """An answer to a Fetch that names its topic by id, with several batches."""
    batches = make_batch(0) + make_batch(10, codec=4)
    values = {"PartitionIndex": 3, "Records": batches, "HighWatermark": 30, "PreferredReadReplica": -1}
    data = b"\0" + answer("FetchResponse", ID_VERSION, values, items=1)
    asked = FetchFormat(scripted_leader.TOPIC, topic_id=UUID(bytes=ANSWERED_ID), rack_id="")
    within = LogRange(topic="orders", partition=3, start=0, end=30)

    def read(files: Files) -> Reading:
        found = Reading()
        with found.part():
            try:
                told = asked.decode(memoryview(files["answer"]))
            except UNREADABLE as error:  # what the reader turns into an error of ours
                found.named.append(f"unreadable: {error}")
                return found
            window = batch_window(told.records, within, 0, log_start=max(told.log_start, 0))
            if window.chunk is not None:
                verify_crc(window.chunk.data, window.chunk.batches)
            found.data["window"] = (window.next_offset, window.reaches_to, window.beyond)
        return found

    return Target(files={"answer": data}, read=read, trust=Trust.WIRE)


FOR_EVER = 1 << 62


def fetches(*, times: int) -> Target:
    """A partition that is read to its end from a leader whose first answers, so many times, are the mutant."""
    batches = [make_batch(0), make_batch(10, codec=4), make_batch(20)]
    values = {
        "Topic": "orders",
        "PartitionIndex": 3,
        "Records": batches[0],
        "HighWatermark": 30,
        "LastStableOffset": 30,
        "LogStartOffset": 0,
        "PreferredReadReplica": -1,
        "ThrottleTimeMs": 0,
    }
    first = answer("FetchResponse", 11, values, items=1)
    return Target(files={"answer": first}, read=partial(_read_stream, batches=batches, times=times), trust=Trust.WIRE)


def _read_stream(files: Files, *, batches: list[bytes], times: int) -> Reading:
    leader = _Leader(batches=batches, first=files["answer"], times=times)
    found, reading = Reading(), scripted_leader.Reading()
    with found.part(), patch.object(scripted_leader.ScriptedRouter, "lease_broker", _no_such_broker):
        scripted_leader.read(leader, 0, 30, into=reading)
    found.data["bases"], found.data["others"] = reading.bases, reading.others
    return found


def _no_such_broker(_router: object, node_id: int) -> NoReturn:
    """Whatever replica an answer sends its reader to."""
    raise KafkaUnreachable(f"no broker {node_id}")


@dataclass
class _Leader(scripted_leader.ScriptedLeader):
    first: bytes = b""
    times: int = 0

    def answer(self, offset: int) -> memoryview:
        self.times -= 1
        return memoryview(self.first) if self.times >= 0 else super().answer(offset)
