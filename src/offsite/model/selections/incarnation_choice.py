"""Which incarnation of a topic is meant, where a backup holds several: the topic was deleted and made anew.

Syntax: `orders=1` (counted from the oldest), `orders=oldest`, `orders=newest`, or `orders=4f1a` (how its topic id
begins, four characters at least). After a comma another topic may follow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from offsite.model.errors import BadOption
from offsite.model.untrusted.names import check_topic_name

OLDEST, NEWEST = "oldest", "newest"
ID_CHARACTERS_MIN = 4
"""Of a topic id. What is shorter and all digits is a number."""

_HINT = "write --incarnation orders=1, orders=oldest, orders=newest, or orders= and how its topic id begins"


def parse_incarnations(values: Iterable[str]) -> Mapping[str, str]:
    """Topic → how its incarnation was named. Raises `BadOption` and `BadName`."""
    chosen: dict[str, str] = {}
    for text in (part.strip() for value in values for part in value.split(",") if part.strip()):
        topic, _, name = text.partition("=")
        if not _is_choice(name) or topic in chosen:
            raise BadOption(f"{text!r} names no incarnation, or the second one of that topic", hint=_HINT)
        chosen[check_topic_name(topic)] = name
    return chosen


def _is_choice(name: str) -> bool:
    return name in {OLDEST, NEWEST} or is_number(name) or len(name) >= ID_CHARACTERS_MIN


def is_number(name: str) -> bool:
    """Whether it counts incarnations; longer ones are the beginning of an id."""
    return name.isascii() and name.isdecimal() and len(name) < ID_CHARACTERS_MIN
