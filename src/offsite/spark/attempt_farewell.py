"""The end of a worker while it has a task: it takes away what it was writing.

A driver that ends sends its workers SIGHUP, and so does Spark's daemon. They would die of it where they stand: what
they had written would lie in `~tmp` of the repository until it is swept, a day later, as it does after a kill -9.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interrupted_by_hangup() -> Iterator[None]:
    """In this block SIGHUP raises `KeyboardInterrupt`. A worker that is lent to us is given back as it was."""
    if threading.current_thread() is not threading.main_thread():  # only there signals are handled
        yield
        return
    before = signal.signal(signal.SIGHUP, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)
