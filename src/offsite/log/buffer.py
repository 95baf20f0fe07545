"""What the functions of this package read bytes from."""

from __future__ import annotations

from typing import TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview
"""Bytes that can be read in place. A `memoryview` must be one-dimensional and of single bytes."""
