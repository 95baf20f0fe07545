"""Which consumer groups are meant: `all`, `none`, or names, globs and regular expressions, comma-separated.

The syntax is that of topics, but a group may have any name: nothing is checked beyond what can be read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from offsite.model.errors import BadOption
from offsite.model.selections.selection import TopicSelection

ALL, NONE = "all", "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPatterns:
    """A frozen choice of groups. No pattern: no group."""

    include: tuple[str, ...]

    def __str__(self) -> str:
        return ",".join(self.include)

    def __bool__(self) -> bool:
        return bool(self.include)

    def select(self, groups: Iterable[str]) -> tuple[str, ...]:
        """Names of `groups` that are meant, sorted."""
        return TopicSelection(include=self.include).select(groups)

    def missing(self, groups: Iterable[str]) -> tuple[str, ...]:
        """Literal names that are not among `groups`, sorted."""
        return TopicSelection(include=self.include).missing(groups)


ALL_GROUPS = GroupPatterns(include=("*",))
NO_GROUPS = GroupPatterns(include=())


def parse_groups(values: Iterable[str]) -> GroupPatterns:
    """Read what was typed; nothing typed means all. Raises `BadOption` for a pattern that cannot be read."""
    patterns = tuple(part.strip() for value in values for part in value.split(",") if part.strip())
    if not patterns or patterns == (ALL,):
        return ALL_GROUPS
    if patterns == (NONE,):
        return NO_GROUPS
    chosen = GroupPatterns(include=patterns)
    try:
        chosen.select([""])
    except re.error as error:
        raise BadOption(f"{','.join(patterns)!r} cannot be read: {error}", hint="quote it for the shell") from error
    return chosen
