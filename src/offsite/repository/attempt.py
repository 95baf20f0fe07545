"""Where attempt ids come from: the eight random hexadecimal digits that make every object name new."""

from __future__ import annotations

import secrets

_ATTEMPT_BYTES = 4


def random_attempt() -> str:
    """A fresh attempt id. Two equal ones for one range are refused by the store, never overwritten."""
    return secrets.token_hex(_ATTEMPT_BYTES)
