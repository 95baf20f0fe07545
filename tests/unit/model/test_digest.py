from __future__ import annotations

import hashlib
import json

import pytest

from offsite.model.untrusted.bounded_json import DigestState, check_digest, with_digest

PLAIN = b'{"format":1,"name":"n\\u00e4chtlich"}\n'


def test_the_digest_is_the_hash_of_what_stands_before_it() -> None:
    sealed = with_digest(PLAIN)
    assert json.loads(sealed) == json.loads(PLAIN) | {"digest": f"sha256:{hashlib.sha256(sealed[:-85]).hexdigest()}"}
    assert check_digest(sealed) is DigestState.RIGHT


def test_an_object_of_an_earlier_version_has_none() -> None:
    assert check_digest(PLAIN) is DigestState.ABSENT
    assert check_digest(b"") is DigestState.ABSENT


def test_no_flipped_bit_is_taken_for_right() -> None:
    sealed = with_digest(PLAIN)
    for index in range(len(sealed)):
        for bit in range(8):
            flipped = bytes([*sealed[:index], sealed[index] ^ 1 << bit, *sealed[index + 1 :]])
            assert check_digest(flipped) is not DigestState.RIGHT, (index, bit)


@pytest.mark.parametrize("cut", [1, 2, 85, 86])
def test_a_cut_object_has_no_digest(cut: int) -> None:
    assert check_digest(with_digest(PLAIN)[:-cut]) is DigestState.ABSENT
