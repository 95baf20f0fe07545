"""What every wrapper's `Participant` does around the rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest

from offsite_participant.core import Hooks
from offsite_participant.errors import ControlUnavailable, LeaseLost, NotDelivered
from offsite_participant.number import Form, Stamp, TopicPartition, stamp_of
from offsite_participant.participant import Assignment, Participant, Settings, SystemClock
from offsite_participant.ports import Outgoing, Record
from tests.processes import wait_until
from tests.unit.participant.participant_world import ALSO_IN, CONTROL, IN, LEASE_MS, World


@dataclass(kw_only=True)
class FakeClient(World):
    """`coming` is what it takes; a partition in it is one that it loses then. `refusals`: how often it refuses first.
    `is_append_broken`: its client raises what is none of ours."""

    coming: list[Record | TopicPartition] = field(default_factory=list)
    sent: list[Outgoing] = field(default_factory=list)
    refusals: int = 0
    refusal_ms: int = 0
    reports: Assignment = field(default_factory=Assignment)
    closed: int = 0
    is_append_broken: bool = False
    broken_appends: int = 0

    def participant(self, settings: Settings = Settings()) -> Participant:
        made = Participant(client=self, control=self, reports=self.reports, settings=settings, clock=self)
        self.reports.assigned([IN, ALSO_IN])
        return made

    def take(self, timeout_s: float) -> Record | None:
        match self.coming.pop(0) if self.coming else None:
            case TopicPartition() as lost:
                self.reports.revoked([lost])
                return None
            case found:
                return found

    def prepare(self, topic: str) -> None: ...

    def send(self, record: Outgoing) -> bool:
        if self.refusals:
            self.refusals, self.now = self.refusals - 1, self.now + self.refusal_ms
            return False
        self.sent.append(record)
        return True

    def close(self) -> None:
        self.closed += 1

    def append(self, value: bytes) -> None:
        if self.is_append_broken:
            self.broken_appends += 1
            raise RuntimeError("an error of the client")
        super().append(value)

    def seek(self, positions: Mapping[TopicPartition, int]) -> None:
        super().seek(positions)
        self.coming = [self.record(offset, where=where) for where, offset in positions.items()]

    def flush(self) -> None:
        for reason in self.undelivered:
            self.reports.given_up(reason)
        self.undelivered = []


FORM_B = Settings(form=Form.ACKS, name="payer", lease_ms=LEASE_MS)


def test_a_record_waits_for_the_control_topic() -> None:
    client = FakeClient()
    with client.participant() as participant:
        client.coming = [client.record(0), client.record(1)]
        client.is_control_away = True
        for _ in range(2):
            with pytest.raises(ControlUnavailable):
                participant.poll(0)
        client.is_control_away = False
        assert [participant.poll(0), participant.poll(0)] == [client.record(0), client.record(1)]


def test_markers_are_passed_over_within_one_call() -> None:
    client = FakeClient()
    with client.participant() as participant:
        client.coming = [client.marker(0, 3), client.record(1)]
        assert participant.poll(5) == client.record(1)
        assert participant.number == 3


def test_what_is_taken_is_not_handled_if_it_comes_again() -> None:
    """The record waits for its checkpoint, and then the participant goes back."""
    is_full = [True]

    def save(_number: int, _positions: object) -> None:
        if is_full[0]:
            raise OSError("disk full")

    client = FakeClient()
    with client.participant(Settings(hooks=Hooks(on_checkpoint=save))) as participant:
        client.coming = [client.record(0)]
        participant.poll(0)
        client.coming = [client.record(1, number=4)]
        with pytest.raises(OSError, match="disk full"):
            participant.poll(0)
        is_full[0] = False
        client.reports.given_up("timed out")
        again = [participant.poll(0), participant.poll(0)]
    assert again == [client.record(0), None]


def test_a_lost_output_is_made_up_for() -> None:
    client = FakeClient()
    with client.participant() as participant:
        client.coming = [client.record(0)]
        participant.poll(0)
        participant.produce("paid", b"0")
        client.undelivered = ["timed out"]
        with pytest.raises(NotDelivered):
            participant.commit()
        assert participant.poll(0) == client.record(0)


def test_a_record_waits_for_room() -> None:
    client = FakeClient(refusals=2)
    with client.participant() as participant:
        participant.produce("paid", b"0", key=b"k", partition=1, headers=[("trace", b"x")])
    (sent,) = client.sent
    assert replace(sent, headers=[]) == Outgoing(topic="paid", value=b"0", key=b"k", partition=1)
    assert stamp_of(sent.headers, "paid") == Stamp(0, Form.MARKERS, "paid", CONTROL)
    assert sent.headers[0] == ("trace", b"x")


def test_a_lease_may_be_lost_while_a_record_waits_for_room() -> None:
    client = FakeClient(refusals=1, refusal_ms=LEASE_MS)
    participant = client.participant(FORM_B)
    with pytest.raises(LeaseLost):
        participant.produce("paid", b"0")
    assert client.sent == []
    participant.close()


def test_what_cannot_be_said_at_the_end_does_not_keep_the_clients_open() -> None:
    client = FakeClient()
    participant = client.participant(FORM_B)
    client.is_control_away = True
    with pytest.raises(ControlUnavailable):
        participant.close()
    assert client.closed == 2


def test_beats_outlive_what_a_client_raises() -> None:
    client = FakeClient()
    with client.participant(FORM_B):
        client.is_append_broken = True
        client.now = LEASE_MS * 2 // 5
        wait_until(lambda: client.broken_appends > 1, "a beat after one that broke")
        client.is_append_broken = False
        wait_until(lambda: any('"beat"' in each for each in client.done), "a beat")


def test_form_b_needs_a_name() -> None:
    with pytest.raises(ValueError, match="name"):
        Settings(form=Form.ACKS)


def test_the_clock_goes_on() -> None:
    clock = SystemClock()
    assert 0 < clock.now_ms() <= clock.now_ms()
