from __future__ import annotations

import pytest

from offsite.archives.kafka_backup.groups import decode_group_file, encode_group_file


def test_groups_stand_in_the_order_of_the_tool_s_hash_map() -> None:
    assert (
        encode_group_file({"it-app-end": 1, "it-app-2": 2, "it-app-1": 3})
        == b'{"it-app-1":3,"it-app-2":2,"it-app-end":1}'
    )


def test_groups_of_one_slot_stand_as_the_broker_named_them() -> None:
    written = b'{"it-app-zero":1,"it-app-end":2}'
    assert encode_group_file({"it-app-zero": 1, "it-app-end": 2}) == written
    assert encode_group_file({"it-app-end": 2, "it-app-zero": 1}) == written


def test_names_of_all_kinds_come_back() -> None:
    offsets = {"": 0, 'quo"te': 1, "Füße": 2, "\N{GRINNING FACE}": 3} | {f"group-{n}": n for n in range(100)}
    assert decode_group_file(encode_group_file(offsets)) == offsets
    assert "Füße".encode() in encode_group_file(offsets)


@pytest.mark.parametrize("data", [b"", b'{"a":1', b"[1]", b"7", b"\xff\xfe"])
def test_what_is_no_such_object_counts_as_absent(data: bytes) -> None:
    assert decode_group_file(data) is None


def test_offsets_that_are_none_are_left_out() -> None:
    assert decode_group_file(b'{"a":1,"b":null,"c":"2","d":-1,"e":true}') == {"a": 1}


@pytest.mark.parametrize("data", [b"[" * 100_000, b'{"a":' + b"9" * 5000 + b"}"])
def test_what_python_does_not_read_counts_as_absent(data: bytes) -> None:
    assert decode_group_file(data) is None


def test_offsets_that_kafka_cannot_have_are_left_out() -> None:
    assert decode_group_file(b'{"a":9223372036854775808,"b":9223372036854775807,"c":-1}') == {"b": (1 << 63) - 1}
