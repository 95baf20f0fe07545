"""Shows groups of a backup deleted at the source, for people."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from offsite.model.selection import join_patterns

if TYPE_CHECKING:
    from rich.console import Console

    from offsite.groups.groups_as_of import GoneSince

_NAMED_MAX = 12
"""Groups named; the JSON output has all."""


def render_gone(console: Console, gone: Sequence[GoneSince]) -> None:
    """Show the deleted groups, and how to restore deleted groups all the same."""
    for group in gone[:_NAMED_MAX]:
        console.print(f"  {group}")
    if len(gone) > _NAMED_MAX:
        console.print(f"  and {len(gone) - _NAMED_MAX:,} more deleted groups (-o json has all)")
    if gone:
        patterns = join_patterns(["*", *dict.fromkeys(group.group for group in gone[:_NAMED_MAX])])
        console.print(f"  to restore them anyway, give their full names: --groups {shlex.quote(patterns)}")
