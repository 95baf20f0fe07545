"""Participants on a real broker, with both clients."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest

from offsite_participant import confluent, kafka_python, ports
from offsite_participant import ports as again
from offsite_participant.control import AckRecord, SignRecord
from offsite_participant.errors import ControlUnavailable, LeaseLost, NotCommitted, NotDelivered
from offsite_participant.number import Form, parse_note
from offsite_participant.participant import Participant, Settings
from offsite_participant.ports import Record
from tests.integration.participant.site import CLIENTS, Site, found, next_of

pytestmark = pytest.mark.parametrize("client", CLIENTS)


def test_stamps_follow_what_is_read_and_commits_say_what_was_written(site: Site, client: str) -> None:
    site.order(b"0")
    with site.participant(client) as payer:
        pay(site, payer, b"0", number=0)
        site.mark(4)
        site.order(b"2", number=6)
        pay(site, payer, b"2", number=6)
        payer.commit()
    assert site.paid_numbers() == [0, 6]
    offset, metadata = site.metadata()
    assert (offset, metadata.rpartition(";")[0]) == (3, f"offsite:1;cp=6;out={site.paid}/0@1")


def pay(site: Site, payer: Participant, value: bytes, *, number: int) -> None:
    order = next_of(payer)
    assert (order.value, payer.number) == (value, number)
    payer.produce(site.paid, order.value, headers=order.headers)


def test_a_restart_does_not_forget_the_number_and_another_control_topic_begins_anew(site: Site, client: str) -> None:
    """As on a cluster that the records were restored to: its checkpoints have ids of their own."""
    site.order(b"0", number=4)
    with site.participant(client) as payer:
        next_of(payer)
        payer.commit()
    with site.participant(client) as payer:
        assert payer.number == 4
    site.control = f"{site.control}-anew"
    site.order(b"1")
    with site.participant(client) as payer:
        assert next_of(payer).value == b"1"
        assert payer.number == 0


def test_who_could_not_write_to_the_control_topic_goes_on_when_it_is_there_again(
    site: Site, client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After longer than a record is tried for: kafka-python's own producer sends nothing more then."""
    monkeypatch.setattr(kafka_python, "_ANSWER_MS", 1_500)
    for each in (kafka_python, confluent, again):
        monkeypatch.setattr(each, "ANSWER_S", 1.5)

    def fail() -> None:
        end_s = time.monotonic() + 6
        while time.monotonic() < end_s:
            with suppress(ControlUnavailable, LeaseLost):
                payer.poll(0.1)

    with site.participant(client, Settings(form=Form.ACKS, name="payer-1", lease_ms=2_000)) as payer:
        site.make_control_anew(fail)
        site.order(b"0")
        found(lambda: paid(site, payer))
    assert {each.value() for each in site.read(site.paid)} == {b"0"}
    assert site.metadata()[0] == 1


def paid(site: Site, payer: Participant) -> bool | None:
    """Whether an order is paid for good; what a busy machine makes late is read again."""
    with suppress(ControlUnavailable, LeaseLost, NotCommitted, NotDelivered):
        if (order := payer.poll(0.1)) is not None:
            payer.produce(site.paid, order.value)
            payer.commit()
            return True
    return None


def test_what_is_deleted_while_it_is_read_hides_nothing(
    site: Site, client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As whoever opens a checkpoint does, with what is older."""
    for number in (3, 4, 5):
        site.open(number)
    deleted: list[int] = []

    def first_to_read(offset: int, *, low: int, high: int) -> int:
        at = ports.first_to_read(offset, low=low, high=high)
        if not deleted:
            deleted.append(at)
            site.forget(below=2)
        return at

    monkeypatch.setattr(confluent, "first_to_read", first_to_read)
    monkeypatch.setattr(kafka_python, "first_to_read", first_to_read)
    with site.participant(client) as payer:
        assert (deleted, payer.number) == ([0], 5)


def test_a_control_topic_that_was_made_anew_and_is_as_long_as_before_is_read_from_its_start(
    site: Site, client: str
) -> None:
    """Else its checkpoints would be passed over by whoever goes on to stamp, with a number that is too low."""
    site.order(b"0", number=4)
    with site.participant(client) as payer:
        assert (next_of(payer).value, payer.number) == (b"0", 4)
        site.make_control_anew()
        site.mark(5)
        site.order(b"1")
        assert (next_of(payer).value, payer.number) == (b"1", 5)


def test_who_takes_over_a_partition_has_the_number_of_who_read_it(site: Site, client: str) -> None:
    for partition in range(2):
        site.order(b"before", partition=partition)
    with site.participant(client) as first:
        assert {next_of(first).partition for _ in range(2)} == {0, 1}
        first.commit()
        with site.participant(client) as second:
            site.open(5)
            for partition in range(2):
                site.mark(5, partition=partition)
            assert second.number == 0
            found(lambda: first.poll(0.1) or (first.number == 5 or None))
            found(lambda: _commits(first, site) or None)
            for partition in range(2):
                site.order(b"after", partition=partition)
            found(lambda: _next_of_second(first, second))
            assert second.number == 5


def _next_of_second(first: Participant, second: Participant) -> Record | None:
    first.poll(0.02)
    return second.poll(0.1)


def _commits(participant: Participant, site: Site) -> bool:
    participant.poll(0)
    participant.commit()
    return all(site.metadata(partition)[0] == 2 for partition in range(2))


def test_form_b_acknowledges_after_its_outputs_have_arrived_and_leaves(site: Site, client: str) -> None:
    site.order(b"0")
    with site.participant(client, Settings(form=Form.ACKS, name="payer", lease_ms=4_000)) as payer:
        order = next_of(payer)
        site.open(7, Form.ACKS)
        payer.produce(site.paid, order.value)
        found(lambda: payer.poll(0.05) or _acked(site))
        assert site.paid_numbers() == [0]
        payer.produce(site.paid, order.value)
        payer.commit()
    assert site.paid_numbers() == [0, 7]
    note = parse_note(site.metadata()[1])
    assert note is not None
    assert note.number == 7
    last = site.said()[-1]
    assert isinstance(last, SignRecord)
    assert last.sign == "leave"


def _acked(site: Site) -> bool | None:
    return any(isinstance(each, AckRecord) and each.id == 7 for each in site.said()) or None
