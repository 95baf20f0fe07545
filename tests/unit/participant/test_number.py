"""What stands on records and in commits: who may write there may write anything."""

from __future__ import annotations

import pytest

from offsite_participant.errors import UnknownVersion, Unreadable
from offsite_participant.number import (
    MARKER_KEY,
    MAX_METADATA_BYTES,
    MAX_NUMBER,
    CommitNote,
    Form,
    Stamp,
    TopicPartition,
    marker_headers,
    marker_of,
    number_of,
    parse_note,
    parse_stamp,
    stamp_of,
    stamped,
)

PAID = TopicPartition("paid", 2)


def stamp(number: int, topic: str = "paid", form: Form = Form.ACKS) -> Stamp:
    return Stamp(number, form, topic, "control")


@pytest.mark.parametrize("number", [0, 1, 42, MAX_NUMBER])
def test_a_stamp_says_its_number(number: int) -> None:
    assert stamp_of(stamped([], stamp(number)), "paid") == stamp(number)


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"7",
        b"-1;acks;paid;control",
        b"007;acks;paid;control",
        b"1_0;acks;paid;control",
        b" 1;acks;paid;control",
        b"1;acks;paid;control\n",
        b"\xd9\xa1;acks;paid;control",
        b"1.0;acks;paid;control",
        b"1;later;paid;control",
        b"1;acks;paid",
        b"1;acks;;control",
        b"1;acks;paid;",
        b"1;acks;p aid;control",
        b"9" * 19 + b";acks;paid;control",
        b"9" * 5000,
    ],
)
def test_what_is_no_stamp_counts_as_none(value: bytes | None) -> None:
    assert parse_stamp(value) is None
    assert number_of([("offsite-checkpoint", value)], "paid", "control") == 0


@pytest.mark.parametrize("impossible", [stamp(-1), stamp(MAX_NUMBER + 1), stamp(1, "no topic"), stamp(1, "t" * 250)])
def test_a_stamp_that_could_not_be_read_is_not_written(impossible: Stamp) -> None:
    with pytest.raises(ValueError, match="is not a stamp"):
        impossible.format()


def test_a_stamp_that_is_passed_on_is_replaced_and_a_marker_is_not_passed_on() -> None:
    headers = stamped([("trace", b"x"), *marker_headers(9, "orders", "control")], stamp(3))
    assert headers == [("trace", b"x"), ("offsite-checkpoint", b"3;acks;paid;control")]


def test_a_stamp_of_another_topic_is_none() -> None:
    headers = [*stamped([], stamp(3, "orders")), *marker_headers(9, "orders", "control")]
    assert stamp_of(headers, "paid") is None
    assert number_of(headers, "paid", "control") == 0
    assert marker_of(MARKER_KEY, None, headers, "paid") is None


def test_a_number_of_another_control_topic_says_nothing() -> None:
    headers = [*stamped([], stamp(3)), *marker_headers(9, "paid", "another")]
    assert number_of(headers, "paid", "control") == 3
    assert number_of(headers, "paid", "another") == 9
    assert marker_of(MARKER_KEY, None, headers, "paid") == 9, "it is no data for that"


def test_the_highest_of_several_numbers_counts() -> None:
    values = [stamp(3).format(), b"?", stamp(2).format(), stamp(9, "orders").format()]
    assert number_of([("offsite-checkpoint", each) for each in values], "paid", "control") == 3
    assert (
        number_of([*marker_headers(7, "paid", "control"), ("offsite-checkpoint", stamp(2).format())], "paid", "control")
        == 7
    )


def test_a_marker_is_told_from_data() -> None:
    headers = marker_headers(4, "paid", "control")
    assert marker_of(MARKER_KEY, None, headers, "paid") == 4
    assert marker_of(MARKER_KEY, b"data", headers, "paid") is None
    assert marker_of(b"a key", None, headers, "paid") is None
    assert marker_of(MARKER_KEY, None, stamped([], stamp(4)), "paid") is None
    assert marker_of(MARKER_KEY, None, marker_headers(0, "paid", "control"), "paid") is None


def test_a_commit_says_number_and_outputs() -> None:
    note = CommitNote(number=3, outputs={PAID: 7, TopicPartition("a.b_c-d", 0): 0})
    assert note.format() == "offsite:1;cp=3;out=a.b_c-d/0@0,paid/2@7;"
    assert parse_note(note.format()) == note
    assert parse_note(CommitNote(number=0).format()) == CommitNote(number=0, outputs={})


def test_outputs_that_do_not_fit_are_any() -> None:
    note = CommitNote(number=3, outputs={TopicPartition("t" * 249, each): 5 for each in range(20)})
    assert note.format() == "offsite:1;cp=3;out=*;"
    assert parse_note(note.format()) == CommitNote(number=3, outputs=None)
    assert MAX_METADATA_BYTES < 4096


@pytest.mark.parametrize("metadata", [None, "", "flink", "{}", "Offsite:1;cp=1;out="])
def test_the_metadata_of_others_is_left_alone(metadata: str | None) -> None:
    assert parse_note(metadata) is None


@pytest.mark.parametrize(
    "metadata",
    [
        "offsite:",
        "offsite:1",
        "offsite:1;cp=;out=;",
        "offsite:1;cp=-1;out=;",
        "offsite:1;cp=1",
        "offsite:1;cp=9999999999999999999;out=;",
        "offsite:1;cp=1;out=paid;",
        "offsite:1;cp=1;out=paid/0@1,;",
        "offsite:1;cp=1;out=p aid/0@1;",
        "offsite:1;cp=1;out=paid/4294967296@1;",
        "offsite:1;cp=1;out=paid/0@9999999999999999999;",
        "offsite:1;cp=1;out=" + "a/0@1," * 1000 + ";",
        "offsite:1;cp=1;out=paid/0@1",
    ],
)
def test_what_claims_to_be_a_note_and_cannot_be_is_refused(metadata: str) -> None:
    with pytest.raises(Unreadable):
        parse_note(metadata)


def test_a_later_version_is_not_guessed_at() -> None:
    with pytest.raises(UnknownVersion):
        parse_note("offsite:2;cp=1;out=;")


def test_what_a_client_adds_behind_is_passed_over() -> None:
    text = CommitNote(number=3, outputs={TopicPartition("paid", 0): 1}).format()
    assert parse_note(text + "\x05") == parse_note(text + "7,x/1@2;") == parse_note(text)
