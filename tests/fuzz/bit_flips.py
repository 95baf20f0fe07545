"""Single flipped bits of objects, one after the other: what disks and memories really do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.target import Files


@dataclass(frozen=True, slots=True, kw_only=True)
class BitFlip:
    """`bit` 0 is the lowest one of the byte at `position`."""

    key: str
    position: int
    bit: int

    def of(self, data: bytes) -> bytes:
        changed = bytearray(data)
        changed[self.position] ^= 1 << self.bit
        return bytes(changed)

    def among(self, files: Files) -> Files:
        """All of `files`, with this bit flipped."""
        return {**files, self.key: self.of(files[self.key])}

    @contextmanager
    def in_folder(self, root: Path) -> Iterator[None]:
        """Flipped in the file below `root` meanwhile, and back afterwards."""
        path = root / self.key
        data = path.read_bytes()
        path.write_bytes(self.of(data))
        try:
            yield
        finally:
            path.write_bytes(data)


def every_byte(files: Files, *, step: int = 1) -> Iterator[BitFlip]:
    """One bit in each byte of each file (in every `step`-th), another one from byte to byte."""
    for key in sorted(files):
        for position in range(0, len(files[key]), step):
            yield BitFlip(key=key, position=position, bit=(position * 5 + len(key)) % 8)


def every_bit(files: Files) -> Iterator[BitFlip]:
    for key in sorted(files):
        yield from (
            BitFlip(key=key, position=position, bit=bit) for position in range(len(files[key])) for bit in range(8)
        )
