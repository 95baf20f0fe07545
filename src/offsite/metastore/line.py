r"""One command as one line of text, `key:value`, for ksqlDB's own tools and for people. Pure.

Two tools read such lines: ksqlDB (class BackupReplayFile) and Kafka's console producer (`parse.key`,
`key.separator=:`). Both read UTF-8, end a line at a line feed, a carriage return or both, and cut the line at its
*first* colon, although a key is JSON text, possibly with a colon. So a command has a line only if both tools read the
command's content back. The line is

- the exact bytes, as ksqlDB writes them, if possible, as nearly always;
- else the same JSON in other bytes: a colon inside the key as `\u003a`, line-breaking white space as blanks;
- else no line: a null or empty key or value, text that is not UTF-8, a line break outside of JSON.

The sidecar holds everything else: no data is lost, and no line is broken.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from offsite.model.untrusted.bounded_json import BadJson, parse_json

SEPARATOR = b":"
_BREAKS = re.compile(rb"[\r\n]")
_JSON_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)


class BackupLine(NamedTuple):
    """`text` is without the line feed. `is_exact`: the line holds the exact bytes of key and value."""

    text: bytes
    is_exact: bool


def line_of(key: bytes | None, value: bytes | None) -> BackupLine | None:
    """The line of a command; None if the command has none."""
    if not key or not value:
        return None
    shown_key, shown_value = _shown_key(key), _shown_value(value)
    if shown_key is None or shown_value is None:
        return None
    text = shown_key + SEPARATOR + shown_value
    return BackupLine(text, parse_line(text) == (key, value))


def parse_line(text: bytes) -> tuple[bytes, bytes] | None:
    """The key and the value of a line, also of ksqlDB's line with a colon inside the key; None for other text."""
    if (match := _JSON_TEXT.match(text)) and text[match.end() : match.end() + 1] == SEPARATOR:
        return text[: match.end()], text[match.end() + 1 :]
    return cut_at_first_colon(text)


def is_whole_line(text: bytes) -> bool:
    """Whether a line of ksqlDB is surely complete: its value is a JSON object, and no prefix of a JSON object is
    one."""
    pair = parse_line(text)
    return pair is not None and isinstance(_json(pair[1]), dict)


def cut_at_first_colon(text: bytes) -> tuple[bytes, bytes] | None:
    """Read a line as ksqlDB and the console producer do."""
    key, separator, value = text.partition(SEPARATOR)
    return (key, value) if separator else None


def _shown_key(key: bytes) -> bytes | None:
    if not _is_text(key):
        return None
    if SEPARATOR not in key and not _BREAKS.search(key):
        return key
    shown = _BREAKS.sub(b" ", key).replace(SEPARATOR, b"\\u003a")
    return shown if isinstance(_json(key), str) else None


def _shown_value(value: bytes) -> bytes | None:
    if not _is_text(value):
        return None
    if not _BREAKS.search(value):
        return value
    return None if _json(value) is None else _BREAKS.sub(b" ", value)


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _json(data: bytes) -> object:
    """None for text that is no JSON, including JSON with a line break inside a string."""
    try:
        return parse_json(data)
    except BadJson:
        return None
