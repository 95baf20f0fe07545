"""Ids that are new each time: of restores, drills, changes, writers, attempts and temporary names. The only file that
draws them, from the operating system's randomness, so that no two machines draw alike."""

from __future__ import annotations

import secrets
import uuid

from offsite.model.time import format_time


def random_id(digits: int = 8) -> str:
    """Random hexadecimal digits, four bits each, an even number of them: 8 tell apart what also has a time or an offset
    in its name, 16 what has nothing else. Where two are equal all the same, a create-only put refuses the second."""
    return secrets.token_hex(digits // 2)


def dated_id(now_ms: int, random: str | None = None) -> str:
    """An id that sorts by its time, in UTC, such as `20261120-140000-0123abcd`, with `random` or new digits behind
    it."""
    stamp = format_time(now_ms)[:19].replace("-", "").replace(":", "").replace("T", "-")
    return f"{stamp}-{random or random_id()}"


def random_uuid() -> str:
    """A random UUID (version 4) in its usual form of 36 characters: the id of a new repository."""
    return str(uuid.uuid4())
