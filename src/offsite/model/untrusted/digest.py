"""A JSON object that carries the hash of its own bytes, so that no bit of it can change unseen.

The digest is the last member: SHA-256 of all bytes before the comma that leads it in. Any shell can look:

    head -c -85 backup.json | sha256sum

It has no key: it finds what rotted, not what somebody forged.
"""

from __future__ import annotations

import hashlib
import re
from enum import Enum

DIGEST_KEY = "digest"
_LENGTH = len(f',"{DIGEST_KEY}":"sha256:{64 * "0"}"}}\n')
_SUFFIX = re.compile(rb',"digest":"sha256:([0-9a-f]{64})"\}\n')


class DigestState(Enum):
    """What the end of some bytes says: `ABSENT` means that nothing vouches for them."""

    RIGHT = "right"
    WRONG = "wrong"
    ABSENT = "absent"


def with_digest(data: bytes) -> bytes:
    """The bytes of `data`, the text of a JSON object of at least one member that ends in `}` and a newline, with its
    digest."""
    body = data.removesuffix(b"}\n")
    return body + f',"{DIGEST_KEY}":"sha256:{hashlib.sha256(body).hexdigest()}"}}\n'.encode("ascii")


def check_digest(data: bytes) -> DigestState:
    """Whether `data` is as `with_digest` made it. An object with a `digest` member that is not at its end, or not in
    this form, has none (`ABSENT`): readers refuse such a member."""
    match = _SUFFIX.fullmatch(data, max(len(data) - _LENGTH, 0))
    if match is None:
        return DigestState.ABSENT
    found = hashlib.sha256(memoryview(data)[:-_LENGTH]).hexdigest().encode("ascii")
    return DigestState.RIGHT if found == match[1] else DigestState.WRONG
