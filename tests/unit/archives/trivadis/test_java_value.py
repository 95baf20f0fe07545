from __future__ import annotations

import pytest

from offsite.archives.trivadis.row import unwrap_java_value

# Made by java.io.ObjectOutputStream of Java 17.
NUMBER = "787200106a6176612e6c616e672e4e756d62657286ac951d0b94e08b0200007870"
STREAMS = {
    "aced000574000e68c3a9c080e282aceda0bdedb880": "hé\0€😀".encode(),
    "aced0005740000": b"",
    "aced0005757200025b42acf317f8060854e002000078700000000300ff05": b"\x00\xff\x05",
    "aced0005757200025b42acf317f8060854e0020000787000000000": b"",
    f"aced0005737200116a6176612e6c616e672e496e746567657212e2a0a4f781873802000149000576616c7565{NUMBER}fffffff9": b"-7",
    f"aced00057372000e6a6176612e6c616e672e4c6f6e673b8be490cc8f23df0200014a000576616c7565{NUMBER}0000010000000000": (
        b"1099511627776"
    ),
    f"aced00057372000f6a6176612e6c616e672e53686f7274684d37133460da5202000153000576616c7565{NUMBER}012c": b"300",
    f"aced00057372000e6a6176612e6c616e672e427974659c4e6084ee50f51c02000142000576616c7565{NUMBER}ff": b"-1",
    "aced0005737200116a6176612e6c616e672e426f6f6c65616ecd207280d59cfaee0200015a000576616c7565787001": b"true",
    "aced0005737200116a6176612e6c616e672e426f6f6c65616ecd207280d59cfaee0200015a000576616c7565787000": b"false",
    f"aced0005737200106a6176612e6c616e672e446f75626c6580b3c24a296bfb0402000144000576616c7565{NUMBER}3fb999999999999a": (
        b"0.1"
    ),
    f"aced00057372000f6a6176612e6c616e672e466c6f6174daedc9a2db3cf0ec02000146000576616c7565{NUMBER}3f8ccccd": b"1.1",
    f"aced00057372000f6a6176612e6c616e672e466c6f6174daedc9a2db3cf0ec02000146000576616c7565{NUMBER}2edbe6ff": b"1e-10",
}
LIST = (
    "aced0005737200136a6176612e7574696c2e41727261794c6973747881d21d99c7619d03000149000473697a6578700000000177040000"
    "00017400016178"
)
NOT_A_NUMBER = (
    "aced0005737200106a6176612e6c616e672e446f75626c6580b3c24a296bfb0402000144000576616c7565"
    + NUMBER
    + "7ff8"
    + "0" * 12
)
DATE = "aced00057372000e6a6176612e7574696c2e44617465686a81014b59741903000078707708000000000000000078"


@pytest.mark.parametrize(("stream", "expected"), STREAMS.items())
def test_a_java_object_is_turned_back_into_what_was_sent(stream: str, expected: bytes) -> None:
    assert unwrap_java_value(bytes.fromhex(stream)) == expected


def test_a_long_text_has_a_long_length() -> None:
    assert unwrap_java_value(bytes.fromhex("aced00057c0000000000011170") + b"x" * 70_000) == b"x" * 70_000


@pytest.mark.parametrize("stream", [LIST, DATE, NOT_A_NUMBER, "aced000570", "", "68656c6c6f"])
def test_other_objects_and_what_is_no_stream_are_not_guessed_at(stream: str) -> None:
    assert unwrap_java_value(bytes.fromhex(stream)) is None


@pytest.mark.parametrize("stream", STREAMS)
def test_a_cut_or_longer_stream_is_not_guessed_at(stream: str) -> None:
    data = bytes.fromhex(stream)
    assert {unwrap_java_value(data[:cut]) for cut in range(len(data))} == {None}
    assert unwrap_java_value(data + b"\0") is None
