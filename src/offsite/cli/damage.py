"""Damage that a command met and worked around: told once on stderr, and by the exit code at its end.

A command that does what can be done with what is sound must not end as if nothing were wrong. The exit code of its own
result counts where it has one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from offsite.cli.output import note
from offsite.model.errors import Damaged

_met: list[str] = []


def tell_damage(problem: str) -> None:
    """Tell people of `problem`, and let the command end with the exit code of damage."""
    if problem not in _met:
        _met.append(problem)
        note(f"warning: {problem}")


@contextmanager
def ending_with_damage() -> Iterator[None]:
    """A block that ends with the exit code of damage if any was told in it, unless it raises an exit code of its
    own."""
    _met.clear()
    yield
    if _met:
        raise typer.Exit(Damaged.exit_code)
