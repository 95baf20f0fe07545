"""New ids: of restores, drills, changes, writers, attempts and temporary names. Drawn from the operating system's
randomness, so that no two machines draw alike. Only `participant` and `sandbox`, which stand alone, draw ids
elsewhere."""

from __future__ import annotations

import secrets
import uuid

from offsite.model.units import format_time


def random_id(digits: int = 8) -> str:
    """Return random hexadecimal digits, four bits per digit, an even number: 8 digits beside a time or an offset in the
    name, 16 digits alone. In case of a collision, a create-only put refuses the second."""
    return secrets.token_hex(digits // 2)


def dated_id(now_ms: int, random: str | None = None) -> str:
    """Return an id that sorts by time, in UTC, such as `20261120-140000-0123abcd`, with `random` or new digits at the
    end."""
    stamp = format_time(now_ms)[:19].replace("-", "").replace(":", "").replace("T", "-")
    return f"{stamp}-{random or random_id()}"


def random_uuid() -> str:
    """Return a random UUID (version 4) of 36 characters: the id of a new repository."""
    return str(uuid.uuid4())
