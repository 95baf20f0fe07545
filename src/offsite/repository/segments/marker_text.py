"""The markers inside the JSON of a sidecar, written and read in blocks: a million rows are never a million objects."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator

from offsite.log.markers import Markers
from offsite.model.size import KIB, MIB

_NAME = b'"markers":['
_WIDTH = 5
_BLOCK_MARKERS = 16_384
_MAX_ROW_BYTES = 1 * KIB  # five numbers of 64 bits take a tenth of it
MAX_REST_BYTES = 8 * MIB
"""Of the text without the markers: frames of 4 MiB and open transactions, some 50 bytes each. As objects it takes up to
40 times as much."""


def insert_markers(plain: bytes, markers: Markers) -> bytearray:
    """`plain`, the canonical JSON of an object whose `markers` is an empty list, with these in it."""
    head, tail = plain.split(_NAME, maxsplit=1)
    text = bytearray(head + _NAME)
    for start in range(0, len(markers), _BLOCK_MARKERS):
        block = markers[start : start + _BLOCK_MARKERS]
        text += b"," if start else b""
        text += b",".join(b"[%d,%d,%d,%d,%d]" % marker for marker in block)
    return text + tail


class MarkerText:
    """The opposite: such JSON, in `blocks` of any size. Read `markers` to its end, then `rest`."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self.rest = b""
        """The text without the markers; JSON in another form than ours with them."""

    def markers(self, *, wanted: bool = True) -> Iterator[Markers]:
        """In about as many parts as there are blocks; none unless they are `wanted`. Raises `ValueError` when a row is
        not five integers."""
        head, text = self._head()
        for block in self._blocks if text else ():
            if _is_last(text):
                text += block
                break
            whole = text.rfind(b"],") + 1
            if not whole and len(text) > _MAX_ROW_BYTES:
                raise ValueError("a marker without an end")
            if wanted and whole:
                yield _rows(text[:whole])
            text = text[whole + 1 if whole else 0 :] + block
        last = 0 if text.startswith(b"]") else text.find(b"]]") + 1
        if wanted and last:
            yield _rows(text[:last])
        head += text[last:]
        for block in self._blocks:
            head += _within(block, len(head))
        self.rest = bytes(head)

    def _head(self) -> tuple[bytearray, bytearray]:
        """The text to where the markers begin, or all of it if they never do; and the rest of that block."""
        text = bytearray()
        for block in self._blocks:
            searched = max(len(text) - len(_NAME), 0)
            text += _within(block, len(text))
            if (at := text.find(_NAME, searched)) >= 0:
                found = at + len(_NAME)
                return text[:found], text[found:] + next(self._blocks, b"")
        return text, bytearray()


def _within(block: bytes, before_bytes: int) -> bytes:
    if before_bytes + len(block) > MAX_REST_BYTES:
        raise ValueError(f"more than {MAX_REST_BYTES} bytes beside the markers")
    return block


def _is_last(text: bytearray) -> bool:
    return text.startswith(b"]") or b"]]" in text


def _rows(text: bytearray) -> Markers:
    """Those of `[…],[…]`. Raises `ValueError`."""
    values = json.loads(text.replace(b"],[", b","))
    if len(values) != _WIDTH * (text.count(b"],[") + 1):
        raise ValueError(f"a marker is not a row of {_WIDTH} integers")
    try:
        return Markers(rows=array("q", values))
    except (TypeError, OverflowError) as error:
        raise ValueError(f"a marker is not a row of {_WIDTH} integers: {error}") from error
