"""Text of files written by people: UTF-8, with or without a byte order mark, as put in front by editors of Windows."""

from __future__ import annotations

_MARK = b"\xef\xbb\xbf"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


class NotUtf8(ValueError):
    """Names the byte and the line that are no UTF-8."""


def decode_text(data: bytes) -> str:
    """Decode the text, without the mark; line breaks stay. Raises `NotUtf8`."""
    if data.startswith(_UTF_16):
        raise NotUtf8("it is UTF-16: save the file as UTF-8")
    data = data.removeprefix(_MARK)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        byte = data[error.start]
        raise NotUtf8(f"line {line}: byte {column} (0x{byte:02x}) is not UTF-8: save the file as UTF-8") from error
