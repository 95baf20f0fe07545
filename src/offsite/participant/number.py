"""The number of a participant's newest checkpoint, and how it travels: on records, and in the metadata of commits.

A stamp names the topic that it was written to. Applications that are no participants pass headers on from what they
read to what they write, as Kafka Streams does; such a stamp says nothing of who passed it on.

It names the control topic, too, that whoever wrote it hears of checkpoints by: one who reads another topic does not
take what is opened in this one, however well he stamps.

Everything that is read here may come from anybody who may write to the topic or the group, so all of it is bounded.
Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from offsite.participant.errors import UnknownVersion, Unreadable

STAMP_HEADER = "offsite-checkpoint"
MARKER_HEADER = "offsite-marker"
MARKER_KEY = b"offsite-checkpoint"
"""One key for all markers, so that compaction leaves the newest one of a partition."""

MAX_NUMBER = 2**63 - 1
MAX_METADATA_BYTES = 4_000
"""Of a commit. Brokers refuse more than `offset.metadata.max.bytes`, which is 4,096 unless somebody lowered it."""

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
    """The `number` that whoever wrote a record to `topic` had then, the form it hears of checkpoints by, and the topic
    where they are opened for it."""

    number: int
    form: Form
    topic: str
    control_topic: str

    def format(self) -> bytes:
        """The value of its header. Raises `ValueError` for what `parse_stamp` would refuse."""
        data = f"{self.number};{self.form.value};{self.topic};{self.control_topic}".encode()
        if parse_stamp(data) != self:
            raise ValueError(f"{self} is no stamp")
        return data


def parse_stamp(value: bytes | None) -> Stamp | None:
    """The stamp that a header's `value` says; None for anything else, which counts as none."""
    found = None if value is None else _STAMP.fullmatch(value)
    if found is None or int(found[1]) > MAX_NUMBER:
        return None
    return Stamp(int(found[1]), Form(found[2].decode()), found[3].decode(), found[4].decode())


def stamp_of(headers: Iterable[Header] | None, topic: str) -> Stamp | None:
    """The stamp of a record of `topic`; the highest one if there are several. None: its producer is no participant."""
    return _highest(headers, STAMP_HEADER, topic)


def marker_of(key: bytes | None, value: bytes | None, headers: Iterable[Header] | None, topic: str) -> int | None:
    """The checkpoint that a record of `topic` is a marker of. None: it is data, whatever its headers say. There is no
    marker 0."""
    if key != MARKER_KEY or value is not None:
        return None
    found = _highest(headers, MARKER_HEADER, topic)
    return found.number or None if found else None


def number_of(headers: Iterable[Header] | None, topic: str, control_topic: str) -> int:
    """The number that a reader of a record of `topic`, for whom checkpoints are opened in `control_topic`, has to have
    before it handles it; 0 if the record says none."""
    stamps = (each for name in (STAMP_HEADER, MARKER_HEADER) for each in _stamps(headers, name, topic))
    return max((each.number for each in stamps if each.control_topic == control_topic), default=0)


def stamped(headers: Iterable[Header] | None, stamp: Stamp) -> list[Header]:
    """`headers` with `stamp`, and without a stamp or marker that was there: applications pass on the headers of what
    they read."""
    others = [each for each in headers or () if each[0] not in {STAMP_HEADER, MARKER_HEADER}]
    return [*others, (STAMP_HEADER, stamp.format())]


def marker_headers(number: int, topic: str, control_topic: str) -> list[Header]:
    """The headers of the marker in `topic` of checkpoint `number`, which was opened in `control_topic`; its key is
    `MARKER_KEY`, its value null."""
    stamp = Stamp(number, Form.MARKERS, topic, control_topic)
    return [(MARKER_HEADER, stamp.format()), (STAMP_HEADER, stamp.format())]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitNote:
    """What a participant says in the metadata of a commit: its `number` then, and the highest offset that it wrote to
    each partition since its commit before. `outputs` None: to more than can be named (`out=*`)."""

    number: int
    outputs: Mapping[TopicPartition, int] | None = field(default_factory=dict)

    def format(self) -> str:
        """At most `MAX_METADATA_BYTES`; outputs that do not fit become `*`."""
        named = None if self.outputs is None else _named(self.outputs)
        text = f"offsite:{_VERSION};cp={self.number};out={_ANY_OUTPUT if named is None else named};"
        return text if len(text) <= MAX_METADATA_BYTES else CommitNote(number=self.number, outputs=None).format()


def parse_note(metadata: str | None) -> CommitNote | None:
    """None if `metadata` is not a participant's. Raises `UnknownVersion`, and `Unreadable` if it claims to be one's and
    cannot be; a backup takes both as `out=*`. What follows the last `;` is passed over: confluent-kafka sometimes hands
    on some bytes that lie behind the metadata in memory."""
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
    return ",".join(f"{each}@{outputs[each]}" for each in sorted(outputs))


def _parse_outputs(text: str) -> dict[TopicPartition, int] | None:
    if text == _ANY_OUTPUT:
        return None
    outputs: dict[TopicPartition, int] = {}
    for item in text.split(",") if text else ():
        found = _OUTPUT.fullmatch(item)
        if found is None or int(found[2]) > MAX_PARTITION or int(found[3]) > MAX_NUMBER:
            raise Unreadable(f"a commit names an output that cannot be: {item[:100]!r}")
        where = TopicPartition(found[1], int(found[2]))
        outputs[where] = max(int(found[3]), outputs.get(where, 0))
    return outputs


def _highest(headers: Iterable[Header] | None, name: str, topic: str) -> Stamp | None:
    return max(_stamps(headers, name, topic), default=None)


def _stamps(headers: Iterable[Header] | None, name: str, topic: str) -> Iterator[Stamp]:
    for key, value in headers or ():
        if key == name and (stamp := parse_stamp(value)) is not None and stamp.topic == topic:
            yield stamp
