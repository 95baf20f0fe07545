"""Names of Spark jobs, as a person reads them in Spark's UI and its history server: `backup shop: 3 topics, 120
ranges`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from offsite.model.untrusted.printable import printable

_MAX_CHARACTERS = 200

_name: ContextVar[str] = ContextVar("offsite-job-name", default="offsite")


@contextmanager
def job_named(name: str) -> Iterator[None]:
    """A block whose jobs are called so, unless a block in it says it better. Must hold no secret."""
    token = _name.set(printable(name)[:_MAX_CHARACTERS])
    try:
        yield
    finally:
        _name.reset(token)


def job_name() -> str:
    return _name.get()
