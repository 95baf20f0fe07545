"""What courses of many steps share."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.unit.conftest import site

__all__ = ["site", "unheard"]


@pytest.fixture
def unheard() -> Iterator[None]:
    """No line of the journal: pytest would keep millions of them until the test ends."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
