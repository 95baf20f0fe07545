"""Keeps the figures free of a virtual machine's habit to hand free memory back to its host.

A page that the host has to find first costs many times as much as one that is there. So before each figure memory is
touched and given back, and what is dirty goes to the disk.
"""

from __future__ import annotations

import mmap
import os


def settle(size_bytes: int) -> None:
    """Write out dirty pages, then make sure that as much memory as this is really there."""
    os.sync()
    with mmap.mmap(-1, size_bytes) as memory:
        pages = -(-size_bytes // mmap.PAGESIZE)
        memory[:: mmap.PAGESIZE] = b"\1" * pages
