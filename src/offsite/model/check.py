"""Assertions that stay on in production: offsite's own invariants, checked in pairs (before a write, after a read)."""

from __future__ import annotations

from offsite.model.errors import Bug


def check(condition: bool, message: str) -> None:
    """Raise `Bug` unless `condition` holds. For offsite's invariants only, never for input from outside."""
    if not condition:
        raise Bug(message, hint="this is a bug in offsite: please report it with the command you ran")
