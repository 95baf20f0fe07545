"""Where random names come from: attempt ids, which make every object name new, and repository ids."""

from __future__ import annotations

import secrets
import uuid

_ATTEMPT_BYTES = 4


def random_attempt() -> str:
    """A fresh attempt id. Two equal ones for one range are refused by the store, never overwritten."""
    return secrets.token_hex(_ATTEMPT_BYTES)


def random_repository_id() -> str:
    """A fresh id for a new repository."""
    return str(uuid.uuid4())
