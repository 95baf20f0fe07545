"""A participant's surroundings in memory: a control topic, a group with a producer, and a clock that is set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from offsite_participant.control import OpenRecord, format_record
from offsite_participant.core import Hooks, ParticipantCore
from offsite_participant.errors import ControlUnavailable, NotCommitted
from offsite_participant.membership import Membership
from offsite_participant.number import (
    MARKER_KEY,
    Form,
    Header,
    Stamp,
    TopicPartition,
    marker_headers,
    stamp_of,
    stamped,
)
from offsite_participant.ports import Committed, ControlRead, Record

CONTROL = "control"
IN, ALSO_IN, OUT = TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("paid", 0)
LEASE_MS = 1_000


@dataclass(kw_only=True)
class World:
    """`done` is all that happened, in order. `undelivered`: what a flush reports as given up."""

    is_form_b: bool = False
    hooks: Hooks = field(default_factory=Hooks)
    now: int = 0
    control: list[bytes | None] = field(default_factory=list)
    is_control_away: bool = False
    control_reads: int = 0
    commits: dict[TopicPartition, Committed] = field(default_factory=dict)
    are_commits_refused: bool = False
    done: list[str] = field(default_factory=list)
    on_the_way: list[tuple[TopicPartition, int]] = field(default_factory=list)
    undelivered: list[str] = field(default_factory=list)
    sought: dict[TopicPartition, int] = field(default_factory=dict)
    is_seek_refused: bool = False
    sessions: int = 0
    questions: int = 0

    def __post_init__(self) -> None:
        self.core = self.new_core()

    def new_core(self) -> ParticipantCore:
        """As after a restart."""
        return ParticipantCore(
            control=self,
            group=self,
            clock=self,
            hooks=self.hooks,
            membership=self._membership() if self.is_form_b else None,
        )

    def open(self, number: int, form: Form = Form.MARKERS) -> None:
        self.control.append(format_record(OpenRecord(id=number, form=form)))

    def record(self, offset: int, *, number: int = 0, where: TopicPartition = IN) -> Record:
        """Of a participant; its number was opened before."""
        self._opened(number)
        return self.given(offset, stamped([], Stamp(number, Form.MARKERS, where.topic, CONTROL)), where=where)

    def stamp(self, headers: Iterable[Header] = ()) -> int:
        """The number on what is written now."""
        found = stamp_of(self.core.outgoing(headers, OUT.topic), OUT.topic)
        assert found is not None
        return found.number

    def marker(self, offset: int, number: int) -> Record:
        self._opened(number)
        given = self.given(offset, marker_headers(number, IN.topic, CONTROL))
        return replace(given, key=MARKER_KEY, value=None)

    def _opened(self, number: int) -> None:
        opened = format_record(OpenRecord(id=number, form=Form.MARKERS)) if number else None
        if opened and opened not in self.control:
            self.control.append(opened)

    def given(self, offset: int, headers: Iterable[Header], *, where: TopicPartition = IN) -> Record:
        return Record(
            topic=where.topic, partition=where.partition, offset=offset, key=None, value=b"", headers=tuple(headers)
        )

    def now_ms(self) -> int:
        return self.now

    @property
    def topic(self) -> str:
        return CONTROL

    def append(self, value: bytes) -> None:
        if self.is_control_away:
            raise ControlUnavailable("away")
        self.control.append(value)
        self.done.append(value.decode())

    def read_from(self, offset: int) -> ControlRead:
        if self.is_control_away:
            raise ControlUnavailable("away")
        self.control_reads += 1
        return ControlRead(values=tuple(self.control[offset:]), end=len(self.control))

    def close(self) -> None: ...

    def committed(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Committed]:
        self.questions += 1
        return {each: self.commits[each] for each in partitions if each in self.commits}

    def commit(self, offsets: Mapping[TopicPartition, int], metadata: str) -> None:
        if self.are_commits_refused:
            raise NotCommitted("refused")
        self.done.append("commit")
        self.commits |= {each: Committed(offset=offset, metadata=metadata) for each, offset in offsets.items()}

    def seek(self, positions: Mapping[TopicPartition, int]) -> None:
        if self.is_seek_refused:
            raise OSError("no such assignment")
        self.sought = dict(positions)

    def flush(self) -> None:
        self.done.append("flush")
        for reason in self.undelivered:
            self.core.given_up(reason)
        for where, offset in self.on_the_way:
            self.core.delivered(where, offset)
        self.undelivered, self.on_the_way = [], []

    def _membership(self) -> Membership:
        return Membership(control=self, clock=self, name="payer", lease_ms=LEASE_MS, new_session=self._session)

    def _session(self) -> str:
        self.sessions += 1
        return f"s{self.sessions}"
