"""A position in a plain block, and what of Avro can be read there. Pure.

Every length that comes out of the data is held against the block before anything is read behind it: damaged bytes raise
`ValueError`, never anything worse.
Format: Avro 1.11 specification, binary encoding.
"""

from __future__ import annotations

from collections.abc import Iterator

from offsite.log.buffer import Buffer
from offsite.log.varint import PADDING, varint_reader

__all__ = ["BlockFields"]


class BlockFields:
    """`data` is the block of `size` bytes with padding behind it, in which `read_long` may end."""

    def __init__(self, block: Buffer) -> None:
        self.data, self.size = b"".join((block, PADDING)), len(block)
        self.position = 0
        self.read_long = varint_reader()

    def long(self) -> int:
        number, self.position = self.read_long(self.data, self.position)
        return number

    def blob(self) -> bytes:
        length, start = self.read_long(self.data, self.position)
        self.position = start + length
        if not start <= self.position <= self.size:
            raise ValueError(f"{length} bytes at byte {start} of {self.size}")
        return self.data[start : self.position]

    def boolean(self) -> bool:
        self.position += 1
        return self.data[self.position - 1] != 0

    def is_first_branch(self) -> bool:
        """Of a union of two types."""
        branch = self.long()
        if branch not in (0, 1):
            raise ValueError(f"no branch {branch} of two before byte {self.position}")
        return branch == 0

    def items(self) -> Iterator[None]:
        """Stands before each item of an array or a map, one after the other, which the caller reads."""
        while (count := self.long()) != 0:
            if count < 0:  # then the size of the items follows
                self.long()
            for _ in range(abs(count)):
                yield
