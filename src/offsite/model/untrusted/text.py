"""Text of files that people wrote: UTF-8, with or without a byte order mark, as editors of Windows put before it."""

from __future__ import annotations

_MARK = b"\xef\xbb\xbf"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


class NotUtf8(ValueError):
    """Says which byte of which line is none."""


def decode_text(data: bytes) -> str:
    """The text, without the mark; its line breaks as they are. Raises `NotUtf8`."""
    if data.startswith(_UTF_16):
        raise NotUtf8("it is UTF-16: save it as UTF-8")
    data = data.removeprefix(_MARK)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        byte = data[error.start]
        raise NotUtf8(f"line {line}: byte {column} (0x{byte:02x}) is no UTF-8: save it as UTF-8") from error
