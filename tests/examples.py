"""How many examples a test takes: all of them, or a tenth in `make quick`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

import hypothesis

IS_QUICK = bool(os.environ.get("QUICK_TESTS"))
_ONE_OF = 10 if IS_QUICK else 1

ItemT = TypeVar("ItemT")


def examples(count: int) -> hypothesis.settings:
    """For a test of hypothesis that takes another number of examples than the hundred of all others."""
    return hypothesis.settings(max_examples=-(-count // _ONE_OF), deadline=None)


def sampled(items: Iterable[ItemT]) -> Iterator[ItemT]:
    """Each of `items` (the bits of an object, the places where a file is cut); every tenth in `make quick`."""
    return islice(items, 0, None, _ONE_OF)
