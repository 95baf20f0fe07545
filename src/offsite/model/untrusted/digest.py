"""A JSON object with the hash of its own bytes, so that no bit can change unseen.

The digest is the last member: SHA-256 of all bytes before the digest's leading comma. Any shell can check:

    head -c -85 backup.json | sha256sum

The digest has no key: it finds rot, not forgery.
"""

from __future__ import annotations

import hashlib
import re
from enum import Enum

DIGEST_KEY = "digest"
_LENGTH = len(f',"{DIGEST_KEY}":"sha256:{64 * "0"}"}}\n')
_SUFFIX = re.compile(rb',"digest":"sha256:([0-9a-f]{64})"\}\n')


class DigestState(Enum):
    """The state of a digest at the end of some bytes. `ABSENT`: nothing vouches for the bytes."""

    RIGHT = "right"
    WRONG = "wrong"
    ABSENT = "absent"


def with_digest(data: bytes) -> bytes:
    """Return `data` with its digest. `data`: the text of a JSON object of at least one member, ending in `}` and a
    newline."""
    body = data.removesuffix(b"}\n")
    return body + f',"{DIGEST_KEY}":"sha256:{hashlib.sha256(body).hexdigest()}"}}\n'.encode("ascii")


def check_digest(data: bytes) -> DigestState:
    """Whether `data` is as made by `with_digest`. An object with a `digest` member elsewhere than at the end, or in
    another form, has no digest (`ABSENT`): readers refuse such a member."""
    match = _SUFFIX.fullmatch(data, max(len(data) - _LENGTH, 0))
    if match is None:
        return DigestState.ABSENT
    actual = hashlib.sha256(memoryview(data)[:-_LENGTH]).hexdigest().encode("ascii")
    return DigestState.RIGHT if actual == match[1] else DigestState.WRONG
