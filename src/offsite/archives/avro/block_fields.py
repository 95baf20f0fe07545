"""What of Avro can be read in a plain block, each from a position to the one behind it. Pure.

Every length that comes out of the data is held against the block before anything is read behind it: damaged bytes raise
`ValueError`, never anything worse.
Format: Avro 1.11 specification, binary encoding.
"""

from __future__ import annotations

from offsite.log.buffer import Buffer
from offsite.log.records.varint import PADDING, varint_reader

__all__ = ["FIRST", "SECOND", "BlockFields"]

FIRST, SECOND = 0, 2
"""The bytes that begin a union."""
MAX_HEADERS = 1_000_000
"""Of all records in a block: two bytes become a hundred."""


class BlockFields:
    """`data` is the block of `size` bytes with padding behind it, in which `long` may end."""

    def __init__(self, block: Buffer) -> None:
        self.data, self.size = b"".join((block, PADDING)), len(block)
        self.long = varint_reader()
        self._room = MAX_HEADERS

    def blob(self, position: int) -> tuple[bytes, int]:
        length, start = self.long(self.data, position)
        end = start + length
        if not start <= end <= self.size:
            raise ValueError(f"{length} bytes at byte {start} of {self.size}")
        return self.data[start:end], end

    def is_second(self, position: int) -> bool:
        """Which type of a union of two it is; one byte says that."""
        branch = self.data[position]
        if branch not in (FIRST, SECOND):
            raise ValueError(f"no branch of two at byte {position}")
        return branch == SECOND

    def headers(self, position: int, *, are_exact: bool) -> tuple[list[tuple[str, bytes | None]], int]:
        """The entries of the map `headers`, or `are_exact`, the items of `headerList`; one loop, as it is hot."""
        data, size, long = self.data, self.size, self.long
        errors = "surrogateescape" if are_exact else "strict"
        found: list[tuple[str, bytes | None]] = []
        count, at = long(data, position)
        while count != 0:
            if count < 0:  # then the size of the entries follows
                _, at = long(data, at)
            self._room -= abs(count)
            if self._room < 0:
                raise ValueError(f"more than {MAX_HEADERS} headers in a block")
            for _ in range(abs(count)):
                length, start = long(data, at)
                at = start + length
                if not start <= at <= size:
                    raise ValueError(f"a header's name of {length} bytes at byte {start} of {size}")
                name = data[start:at].decode("utf-8", errors)
                value = None
                is_null = are_exact and not self.is_second(at)
                at += are_exact
                if not is_null:
                    length, start = long(data, at)
                    at = start + length
                    if not start <= at <= size:
                        raise ValueError(f"a header of {length} bytes at byte {start} of {size}")
                    value = data[start:at]
                found.append((name, value))
            count, at = long(data, at)
        return found, at
