"""The types of buffers with bytes for this package."""

from __future__ import annotations

from typing import TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview
"""Bytes for reading in place. A `memoryview` must be one-dimensional and of single bytes."""
