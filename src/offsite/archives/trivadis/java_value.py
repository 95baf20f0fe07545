"""Converts values of Java's serialisation stream back to the bytes sent by a producer. Pure.

Connect guessed a type for every header value, and the tool serialised the guess: text, bytes, a boxed number or truth
value. Further types (dates, lists, maps) cannot be converted back into text. Source: Java Object Serialization
Specification, chapter 6.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable

__all__ = ["BYTES_PREFIX", "unwrap_java_value"]

_STREAM = b"\xac\xed\0\5"
BYTES_PREFIX = _STREAM + b"ur\0\x02[B"
"""The beginning of a serialised `byte[]`."""

_BYTES = re.compile(re.escape(BYTES_PREFIX) + rb".{8}\x02\0\0xp(.{4})(.*)", re.DOTALL)
_BOXED = re.compile(
    rb"\xac\xed\0\x05sr\0.java\.lang\.(\w+).{8}\x02\0\x01[A-Z]\0\x05valuex"
    rb"(?:p|r\0\x10java\.lang\.Number.{8}\x02\0\0xp)(.*)",
    re.DOTALL,
)
_BOXES: dict[bytes, str] = {
    b"Byte": ">b",
    b"Short": ">h",
    b"Integer": ">i",
    b"Long": ">q",
    b"Boolean": ">?",
    b"Float": ">f",
    b"Double": ">d",
}


def unwrap_java_value(stream: bytes) -> bytes | None:
    """Return the bytes sent by the producer, as far as known: text as UTF-8, a number as decimal text. None for a
    stream of another kind, and for bytes without a stream."""
    for read in _READERS:
        plain = read(stream)
        if plain is not None:
            return plain
    return None


def _read_bytes(stream: bytes) -> bytes | None:
    match = _BYTES.fullmatch(stream)
    return match[2] if match and len(match[2]) == int.from_bytes(match[1]) else None


def _read_text(stream: bytes) -> bytes | None:
    """Read text and long text: a length of 2 or 8 bytes, then modified UTF-8."""
    for kind, length_bytes in ((b"t", 2), (b"|", 8)):
        start = len(_STREAM) + 1 + length_bytes
        if stream.startswith(_STREAM + kind) and len(stream) - start == int.from_bytes(stream[5:start]):
            return _from_modified_utf8(stream[start:])
    return None


def _from_modified_utf8(data: bytes) -> bytes | None:
    """Convert modified UTF-8: Java writes NUL as two bytes, and every half of a surrogate pair as three."""
    try:
        text = data.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
        return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be").encode()
    except UnicodeError:
        return None


def _read_box(stream: bytes) -> bytes | None:
    match = _BOXED.fullmatch(stream)
    kind = _BOXES.get(match[1]) if match else None
    if match is None or kind is None or len(match[2]) != struct.calcsize(kind):
        return None
    (value,) = struct.unpack(kind, match[2])
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, float):
        return _float_text(value, kind).encode() if math.isfinite(value) else None
    return b"%d" % value


def _float_text(value: float, kind: str) -> str:
    """Return the shortest decimal text of exactly this number."""
    if kind == ">d":
        return repr(value)
    texts = (repr(float(f"{value:.{digits}g}")) for digits in range(1, 10))
    return next(text for text in texts if struct.pack(">f", float(text)) == struct.pack(">f", value))


_READERS: tuple[Callable[[bytes], bytes | None], ...] = (_read_bytes, _read_text, _read_box)
