"""JSON of strangers, with bounded memory and a digest: any defect is a single error. Pure.

Three bytes of JSON, such as `[],`, become seventy of Python: the bytes outside of text decide, not the length. Texts
may hold halves of surrogate pairs, because JSON can spell them; callers decide about such texts.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from enum import Enum
from math import isfinite
from typing import NoReturn

from offsite.model.units import MIB
from offsite.model.untrusted.json_object import JsonValue

MAX_JSON_BYTES = 64 * MIB
_MAX_OUTSIDE_BYTES = 16 * MIB
_SMALL_BYTES = 4 * MIB
_QUOTES = 2
_TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)

DIGEST_KEY = "digest"
_LENGTH = len(f',"{DIGEST_KEY}":"sha256:{64 * "0"}"}}\n')
_SUFFIX = re.compile(rb',"digest":"sha256:([0-9a-f]{64})"\}\n')


class BadJson(ValueError):
    """The bytes are no acceptable JSON. `position` is in bytes."""

    def __init__(self, problem: str, position: int = 0) -> None:
        super().__init__(problem)
        self.position = position


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def _finite(text: str) -> float:
    if not isfinite(number := float(text)):
        raise ValueError(f"{text[:20]} is too large for a number")
    return number


STRICT = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite)
ANY_NUMBER = json.JSONDecoder()
"""Also reads NaN and Infinity, which are no JSON and written all the same."""


def has_halves(data: bytes, parsed: object) -> bool:
    """Whether a text in `parsed`, read from `data`, holds half of a surrogate pair: it cannot be written elsewhere."""
    try:
        if b"\\u" in data:
            json.dumps(parsed, ensure_ascii=False).encode()
    except (UnicodeEncodeError, RecursionError):
        return True
    return False


def _unambiguous(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("an object names a field twice")
    return fields


UNAMBIGUOUS = json.JSONDecoder(object_pairs_hook=_unambiguous)
"""Refuses an object that names a field twice: further readers may take the first, and Python takes the last."""


def parse_json(data: bytes, *, max_bytes: int = MAX_JSON_BYTES, decoder: json.JSONDecoder = ANY_NUMBER) -> object:
    """Parse the JSON value in `data`. Raises `BadJson` for too many bytes, and as `decode_json`."""
    if len(data) > max_bytes:
        raise BadJson(f"JSON of {len(data)} bytes, at most {max_bytes} are read")
    check_json_size(data)
    return decode_json(data, decoder=decoder)


def decode_json(data: bytes | str, *, decoder: json.JSONDecoder = ANY_NUMBER) -> object:
    """Parse the JSON value in `data`, of any size: the caller must bound the size. Raises `BadJson` for bytes that are
    no JSON, nest too deep, or hold a number of thousands of digits."""
    try:
        text = data if isinstance(data, str) else data.decode()
        return decoder.decode(text)
    except json.JSONDecodeError as error:
        raise BadJson(f"not JSON: {error.msg}", len(text[: error.pos].encode("utf-8", "surrogatepass"))) from error
    except UnicodeDecodeError as error:
        raise BadJson("not UTF-8", error.start) from error
    except RecursionError as error:
        raise BadJson("JSON that nests too deep") from error
    except ValueError as error:
        raise BadJson(f"not JSON: {error}") from error


def decode_object(data: bytes, *, decoder: json.JSONDecoder) -> dict[str, JsonValue]:
    """Parse a JSON object and return the members, as `decode_json`. Raises `BadJson` for any other value, too."""
    fields = decode_json(data, decoder=decoder)
    if not isinstance(fields, dict):
        raise BadJson("not a JSON object")
    return fields


def check_json_size(data: bytes, *, small_bytes: int = _SMALL_BYTES, max_outside: int = _MAX_OUTSIDE_BYTES) -> None:
    """Check that the objects of a JSON text fit into memory. Raises `BadJson` for too many bytes outside of texts."""
    if len(data) <= small_bytes:
        return
    outside = end = 0
    for text in _TEXT.finditer(data):
        outside += text.start() - end + _QUOTES
        end = text.end()
        if outside > max_outside:
            break
    if outside + len(data) - end > max_outside:
        raise BadJson(f"JSON with more than {max_outside} bytes outside of text")


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
    another form, has no digest (`ABSENT`): readers refuse such a member.

    The digest is the last member: SHA-256 of all bytes before the digest's leading comma. The digest has no key: it
    finds rot, not forgery. Any shell can check: `head -c -85 backup.json | sha256sum`.
    """
    match = _SUFFIX.fullmatch(data, max(len(data) - _LENGTH, 0))
    if match is None:
        return DigestState.ABSENT
    actual = hashlib.sha256(memoryview(data)[:-_LENGTH]).hexdigest().encode("ascii")
    return DigestState.RIGHT if actual == match[1] else DigestState.WRONG
