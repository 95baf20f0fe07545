"""Names of Spark jobs, for people who read Spark's UI and history server: `backup shop: 3 topics, 120 ranges`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from offsite.model.untrusted.printable import printable

_MAX_CHARACTERS = 200

_name: ContextVar[str] = ContextVar("offsite-job-name", default="offsite")


@contextmanager
def job_named(name: str) -> Iterator[None]:
    """Name the jobs of the block, unless an inner block gives a better name. `name` must hold no secret."""
    token = _name.set(printable(name)[:_MAX_CHARACTERS])
    try:
        yield
    finally:
        _name.reset(token)


def job_name() -> str:
    return _name.get()
