"""Limits of claims from outside: bytes, memory, and numbers in text. One place, the same for the driver and workers.

The writer of a repository, an archive or an answer may be wrong or hostile. A reader checks numbers against Kafka's own
limits before computing with them. A reader expands nothing past the size given by the commit or an index, or past
`MAX_EXPANDED_BYTES` where no size is given; room is checked while the bytes grow, because sizes stated in a frame prove
nothing. Of numbers in text (an option, a file name, a setting) Python refuses more than 4,300 digits by an error of its
own, and reads digits of further scripts: `whole_number` does neither.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from offsite.model.errors import BadOption

_MIB = 1 << 20

MAX_OFFSET = (1 << 63) - 1
"""Offsets, counts, times in ms and sizes are signed 64-bit numbers in Kafka's protocol."""

MAX_EPOCH = (1 << 31) - 1
"""Epochs of leaders have 32 bits."""

MAX_PARTITIONS = 1_000_000
"""Partitions of one topic. Kafka numbers them with 32 bits; controllers make at most 10,000 in one request."""

MAX_EXPANDED_BYTES = 512 * _MIB
"""The largest expansion of one compressed object or block where no trustworthy size is given."""

MAX_OBJECT_BYTES = 1024 * _MIB
"""An object of a repository or an archive read whole: a commit, a part of a catalog, the index of a segment."""

MAX_COMMIT_TIME_MS = 253_402_300_799_999
"""The end of the year 9999: for times of stores' clocks. Times of records may be anything that a producer wrote."""

MAX_RECORD_BYTES = 144 * _MIB
"""One record of an archive in any form, in memory whole, several times: a line, a block, a page. A record of 100 MiB
fits even in base64; brokers take no larger request by default."""

MAX_RATIO = 1_000
"""How many times larger than its input a stream may become, beyond `MAX_EXPANDED_BYTES`. gzip: 1,032."""

MAX_DIGITS = 19
"""Digits of the largest number in Kafka's protocol; Python refuses to read text of more than 4,300."""


_DIGITS = re.compile(r"0*([0-9]+)", re.ASCII)


def whole_number(text: str, *, most: int = MAX_OFFSET) -> int | None:
    """Return the number from 0 to `most` written by `text` in decimal digits, else None."""
    match = _DIGITS.fullmatch(text)
    if match is None or len(match[1]) > MAX_DIGITS or (number := int(match[1])) > most:
        return None
    return number


def parse_number(text: str, noun: str) -> int | None:
    """Return the number in a field; None: empty. Raises `BadOption`."""
    if not text.strip():
        return None
    if not (text.strip().isascii() and text.strip().isdecimal()) or len(text.strip()) > 19:
        raise BadOption(f"{text[:60]!r} is not a number of a {noun}", hint="write only digits")
    return int(text)


def setting_number(configs: Mapping[str, str], name: str, default: int) -> int:
    """Return a setting of Kafka as a number; `default` for a missing value, or a value that Kafka would refuse."""
    text = configs.get(name, "")
    number = whole_number(text.removeprefix("-"))
    if number is None:
        return default
    return -number if text.startswith("-") else number


class TooLargeError(ValueError):
    """The plain bytes exceed the limit."""


def check_room(size_bytes: int, max_bytes: int) -> None:
    """Raise `TooLargeError` when `size_bytes` exceed `max_bytes`."""
    if size_bytes > max_bytes:
        raise TooLargeError(f"it decompresses to more than {max_bytes} bytes")
