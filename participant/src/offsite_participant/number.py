"""The number of a participant's newest checkpoint, and its transport: on records, and in the metadata of commits.

A stamp names the topic that it was written to. Applications that are no participants pass headers on from inputs to
outputs, as Kafka Streams does; a passed-on stamp says nothing about the application.

Everything read here may come from anybody with write access to the topic or the group, so everything is bounded. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from offsite_participant.errors import UnknownVersion, Unreadable

STAMP_HEADER = "offsite-checkpoint"
MARKER_HEADER = "offsite-marker"
MARKER_KEY = b"offsite-checkpoint"
"""A single key for all markers, so that compaction leaves the newest marker of a partition."""

MAX_NUMBER = 2**63 - 1
MAX_METADATA_BYTES = 4_000
"""Of a commit. Brokers refuse more than `offset.metadata.max.bytes`, by default 4,096."""

MAX_PARTITION = 2**31 - 1

Header = tuple[str, bytes | None]

_STAMP = re.compile(rb"(0|[1-9][0-9]{0,18});(markers|acks);([A-Za-z0-9._-]{1,249});([A-Za-z0-9._-]{1,249})")
_NOTE = re.compile(r"offsite:([0-9]{1,9});(.*)", re.ASCII | re.DOTALL)
_BODY = re.compile(r"cp=(0|[1-9][0-9]{0,18});out=([^;]*);.*", re.ASCII | re.DOTALL)  # clients add bytes of their own
_OUTPUT = re.compile(r"([A-Za-z0-9._-]{1,249})/(0|[1-9][0-9]{0,9})@(0|[1-9][0-9]{0,18})", re.ASCII)
_ANY_OUTPUT = "*"
_VERSION = 1


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


class Form(StrEnum):
    """How a participant hears of a checkpoint: form A, form B."""

    MARKERS = "markers"
    ACKS = "acks"


@dataclass(frozen=True, slots=True, order=True)
class Stamp:
    """The `number` of the writer of a record to `topic` at the time, the form in which the writer hears of checkpoints,
    and the topic of their openings.

    A stamp also names its writer's control topic: a writer with another control topic does not take checkpoints opened
    in ours, however well it stamps.
    """

    number: int
    form: Form
    topic: str
    control_topic: str

    def format(self) -> bytes:
        """The value of the header. Raises `ValueError` for a stamp that `parse_stamp` would refuse."""
        data = f"{self.number};{self.form.value};{self.topic};{self.control_topic}".encode()
        if parse_stamp(data) != self:
            raise ValueError(f"{self} is not a stamp")
        return data


def parse_stamp(value: bytes | None) -> Stamp | None:
    """The stamp in a header's `value`; None for anything else, which counts as no stamp."""
    match = None if value is None else _STAMP.fullmatch(value)
    if match is None or int(match[1]) > MAX_NUMBER:
        return None
    return Stamp(int(match[1]), Form(match[2].decode()), match[3].decode(), match[4].decode())


def stamp_of(headers: Iterable[Header] | None, topic: str) -> Stamp | None:
    """The stamp of a record of `topic`; the highest of several. None: its producer is no participant."""
    return _highest(headers, STAMP_HEADER, topic)


def marker_of(key: bytes | None, value: bytes | None, headers: Iterable[Header] | None, topic: str) -> int | None:
    """The checkpoint of a marker record of `topic`. None: the record is data, whatever its headers say. Marker 0 does
    not exist."""
    if key != MARKER_KEY or value is not None:
        return None
    stamp = _highest(headers, MARKER_HEADER, topic)
    return stamp.number or None if stamp else None


def number_of(headers: Iterable[Header] | None, topic: str, control_topic: str) -> int:
    """The number that a reader of a record of `topic`, with checkpoints opened in `control_topic`, must have before
    handling the record; 0 without a number."""
    stamps = (stamp for name in (STAMP_HEADER, MARKER_HEADER) for stamp in _stamps(headers, name, topic))
    return max((stamp.number for stamp in stamps if stamp.control_topic == control_topic), default=0)


def stamped(headers: Iterable[Header] | None, stamp: Stamp) -> list[Header]:
    """`headers` with `stamp`, without earlier stamps and markers: applications pass on the headers of their inputs."""
    own_headers = [header for header in headers or () if header[0] not in {STAMP_HEADER, MARKER_HEADER}]
    return [*own_headers, (STAMP_HEADER, stamp.format())]


def marker_headers(number: int, topic: str, control_topic: str) -> list[Header]:
    """The headers of the marker in `topic` of checkpoint `number`, opened in `control_topic`; its key is `MARKER_KEY`,
    its value null."""
    stamp = Stamp(number, Form.MARKERS, topic, control_topic)
    return [(MARKER_HEADER, stamp.format()), (STAMP_HEADER, stamp.format())]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitNote:
    """A participant's note in the metadata of a commit: the `number` at the time, and the highest offset written to
    every partition since the last commit. `outputs` None: more outputs than can be named (`out=*`)."""

    number: int
    outputs: Mapping[TopicPartition, int] | None = field(default_factory=dict)

    def format(self) -> str:
        """The note as text of at most `MAX_METADATA_BYTES`; outputs that do not fit become `*`."""
        named = None if self.outputs is None else _named(self.outputs)
        text = f"offsite:{_VERSION};cp={self.number};out={_ANY_OUTPUT if named is None else named};"
        return text if len(text) <= MAX_METADATA_BYTES else CommitNote(number=self.number, outputs=None).format()


def parse_note(metadata: str | None) -> CommitNote | None:
    """Parse a note; None if `metadata` is not a participant's. Raises `UnknownVersion`, and `Unreadable` for an invalid
    note; a backup treats both as `out=*`. Text behind the last `;` is ignored: confluent-kafka sometimes appends bytes
    that lie behind the metadata in memory."""
    if not metadata or not metadata.startswith("offsite:"):
        return None
    head = _NOTE.fullmatch(metadata[:MAX_METADATA_BYTES])
    if head is None:
        raise Unreadable(f"the metadata of a commit is not a participant's: {metadata[:100]!r}")
    if int(head[1]) != _VERSION:
        raise UnknownVersion(f"the metadata of a commit has version {head[1]}; this offsite knows {_VERSION}")
    body = _BODY.fullmatch(head[2])
    if body is None or int(body[1]) > MAX_NUMBER:
        raise Unreadable(f"the metadata of a commit is not a participant's: {metadata[:100]!r}")
    return CommitNote(number=int(body[1]), outputs=_parse_outputs(body[2]))


def _named(outputs: Mapping[TopicPartition, int]) -> str:
    return ",".join(f"{partition}@{outputs[partition]}" for partition in sorted(outputs))


def _parse_outputs(text: str) -> dict[TopicPartition, int] | None:
    if text == _ANY_OUTPUT:
        return None
    outputs: dict[TopicPartition, int] = {}
    for output in text.split(",") if text else ():
        match = _OUTPUT.fullmatch(output)
        if match is None or int(match[2]) > MAX_PARTITION or int(match[3]) > MAX_NUMBER:
            raise Unreadable(f"a commit names an output that cannot be: {output[:100]!r}")
        where = TopicPartition(match[1], int(match[2]))
        outputs[where] = max(int(match[3]), outputs.get(where, 0))
    return outputs


def _highest(headers: Iterable[Header] | None, name: str, topic: str) -> Stamp | None:
    return max(_stamps(headers, name, topic), default=None)


def _stamps(headers: Iterable[Header] | None, name: str, topic: str) -> Iterator[Stamp]:
    for key, value in headers or ():
        if key == name and (stamp := parse_stamp(value)) is not None and stamp.topic == topic:
            yield stamp
