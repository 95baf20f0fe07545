"""The control topic: its records, and what follows from them."""

from __future__ import annotations

import json

import pytest

from offsite_participant.control import (
    AckRecord,
    ControlRecord,
    ControlState,
    Form,
    OpenRecord,
    Session,
    Sign,
    SignRecord,
    format_record,
    parse_record,
)
from offsite_participant.errors import UnknownVersion, Unreadable

PAYER, OTHER = Session("payer", "a1"), Session("payer", "b2")


def sign(kind: Sign, session: Session = PAYER) -> SignRecord:
    return SignRecord(sign=kind, session=session, lease_ms=1_000)


def opened(number: int, form: Form = Form.ACKS) -> OpenRecord:
    return OpenRecord(id=number, form=form)


def acked(number: int) -> AckRecord:
    return AckRecord(session=PAYER, id=number, lease_ms=1_000)


def after(*steps: tuple[int, ControlRecord]) -> ControlState:
    state = ControlState()
    for read_at_ms, record in steps:
        state = state.after(record, read_at_ms=read_at_ms)
    return state


@pytest.mark.parametrize(
    "record",
    [opened(3), opened(4, Form.MARKERS), *(sign(kind) for kind in Sign), acked(3)],
)
def test_a_record_is_read_as_it_was_written(record: ControlRecord) -> None:
    assert parse_record(format_record(record)) == record


def test_a_record_is_json_that_others_can_write() -> None:
    assert json.loads(format_record(opened(3))) == {"version": 1, "kind": "open", "id": 3, "form": "acks"}


def test_a_kind_that_is_not_known_is_passed_over() -> None:
    assert parse_record(b'{"version":1,"kind":"later"}') is None
    assert ControlState().after(None, read_at_ms=0) == ControlState()


def test_a_later_version_stops_the_reader() -> None:
    with pytest.raises(UnknownVersion):
        parse_record(b'{"version":2,"kind":"later"}')


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"\xff",
        b"[]",
        b"[" * 4000,
        b"{}",
        b'{"version":1}',
        b'{"version":true,"kind":"open","id":1,"form":"acks"}',
        b'{"version":1,"kind":"open","id":0,"form":"acks"}',
        b'{"version":1,"kind":"open","id":9223372036854775808,"form":"acks"}',
        b'{"version":1,"kind":"open","id":1,"form":"later"}',
        b'{"version":1,"kind":"beat","participant":"a","session":"b","lease_ms":99}',
        b'{"version":1,"kind":"beat","participant":"a","session":"b","lease_ms":600001}',
        b'{"version":1,"kind":"beat","participant":"","session":"b","lease_ms":1000}',
        b'{"version":1,"kind":"ack","participant":"a\\u001b","session":"b","id":1}',
        b'{"version":1,"kind":"ack","participant":"a","session":"b","id":1' + b" " * 4096 + b"}",
    ],
)
def test_what_is_no_record_stops_the_reader(value: bytes | None) -> None:
    with pytest.raises(Unreadable):
        parse_record(value)


def test_what_could_not_be_read_is_not_written() -> None:
    with pytest.raises(ValueError, match="no id that can be"):
        format_record(opened(0))


def test_the_newest_is_the_highest_opened_in_any_form() -> None:
    state = after((0, opened(5)), (1, opened(7, Form.MARKERS)), (2, opened(6)))
    assert (state.newest, state.newest_by_acks) == (7, 6)


def test_those_who_joined_before_an_opening_have_to_acknowledge_it() -> None:
    state = after((0, sign(Sign.JOIN)), (10, opened(5)))
    assert state.missing(5, now_ms=20) == {PAYER}
    state = state.after(acked(5), read_at_ms=30)
    assert state.missing(5, now_ms=40) == frozenset()
    assert state.missing(6, now_ms=40) == {PAYER}


def test_those_who_joined_after_it_need_not() -> None:
    assert after((0, opened(5)), (1, sign(Sign.JOIN))).missing(5, now_ms=2) == frozenset()


def test_a_beat_of_a_session_whose_join_is_gone_counts_as_one_from_before() -> None:
    assert after((0, opened(5)), (1, sign(Sign.BEAT))).missing(5, now_ms=2) == {PAYER}


def test_a_lease_counts_from_when_the_last_beat_was_read() -> None:
    state = after((0, sign(Sign.JOIN)), (900, sign(Sign.BEAT)))
    assert state.alive(now_ms=1_899) == {PAYER}
    assert state.alive(now_ms=1_900) == frozenset()
    assert state.missing(5, now_ms=1_900) == frozenset()
    assert list(state.lapsed(now_ms=1_900)) == [PAYER]
    assert state.without(frozenset({PAYER})).stays == {}


def test_who_leaves_is_waited_for_no_more() -> None:
    assert after((0, sign(Sign.JOIN)), (1, sign(Sign.LEAVE))).alive(now_ms=2) == frozenset()


def test_a_new_session_does_not_end_the_one_before() -> None:
    state = after((0, sign(Sign.JOIN)), (1, opened(5)), (2, sign(Sign.JOIN, OTHER)))
    assert state.missing(5, now_ms=3) == {PAYER}


def test_an_acknowledgement_says_that_its_session_is_alive() -> None:
    """What is older than an opening that all have acknowledged may be deleted."""
    state = after((0, acked(5)))
    assert state.alive(now_ms=999) == {PAYER}
    assert (state.missing(5, now_ms=999), state.missing(6, now_ms=999)) == (frozenset(), {PAYER})
    assert state.alive(now_ms=1_000) == frozenset()


def test_an_acknowledgement_is_not_taken_back_by_an_older_one_nor_by_a_beat() -> None:
    state = after(
        (0, sign(Sign.JOIN)),
        (1, acked(5)),
        (2, acked(4)),
        (3, sign(Sign.BEAT)),
    )
    assert state.missing(5, now_ms=4) == frozenset()
