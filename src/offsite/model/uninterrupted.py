"""Blocks that no signal breaks: a commit in progress is completed, then the interruption is raised.

Signal handlers call `interrupt` instead of raising. Otherwise the exception could come amid a create-only put, and
nobody would know whether the put had arrived. Only the main thread handles signals, so one counter is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class _Pending:
    depth = 0
    is_wanted = False
    tell: Callable[[], None] | None = None


@contextmanager
def uninterrupted() -> Iterator[None]:
    """A block that raises `KeyboardInterrupt` at its end if `interrupt` was called inside."""
    _Pending.depth += 1
    try:
        yield
    finally:
        _Pending.depth -= 1
    let_interrupt()


def let_interrupt() -> None:
    """Raise the `KeyboardInterrupt` of a block that ended with an error: code that continues after the error would not
    hear of the interruption."""
    if _Pending.is_wanted and not _Pending.depth:
        _Pending.is_wanted = False
        raise KeyboardInterrupt


@contextmanager
def notify_interruption(tell: Callable[[], None]) -> Iterator[None]:
    """A block in which `tell` is called, in the signal handler, as soon as somebody wants to interrupt; the calls of
    the blocks around it as well."""
    before = _Pending.tell

    def tell_all() -> None:
        if before is not None:
            before()
        tell()

    _Pending.tell = tell_all
    try:
        yield
    finally:
        _Pending.tell = before


def interrupt() -> None:
    """Raise `KeyboardInterrupt` now, or at the end of an uninterrupted block. A second call inside the block breaks the
    block too: somebody does not want to wait."""
    if _Pending.tell is not None:
        _Pending.tell()
    if not _Pending.depth or _Pending.is_wanted:
        _Pending.is_wanted = False
        raise KeyboardInterrupt
    _Pending.is_wanted = True
