"""What courses of many thousand steps share."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture
def unheard() -> Iterator[None]:
    """No line of the journal: pytest would keep millions of them until the test ends."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
