"""Names: check a name that becomes a part of object keys, with a clear error; write many names in one line of text.

A checked name is safe in an object key or a file name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from offsite.model.errors import BadName

_BACKUP = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_MEANT_MAX_CHARS = 64
"""No suggested name is longer."""


PROTECTED_TOPICS = frozenset(
    {
        "__consumer_offsets",
        "__transaction_state",
        "__share_group_state",
        "__cluster_metadata",
        "__remote_log_metadata",
    }
)
"""Topics written by brokers themselves: records produced from outside would corrupt the cluster."""


def check_backup_name(name: str) -> str:
    """Return `name` if possible for a backup: letters, digits, `.`, `_`, `-`, first a letter or digit, at most 128."""
    if not is_backup_name(name):
        raise BadName(
            f"{name!r} is not a valid backup name",
            hint="use letters, digits, '.', '_' and '-', beginning with a letter or digit, without '..'",
        )
    return name


def is_backup_name(name: str) -> bool:
    """Whether `check_backup_name` accepts `name`: for a backup, a restore, a drill."""
    return _BACKUP.fullmatch(name) is not None and ".." not in name


def check_topic_name(name: str) -> str:
    """Return `name` if Kafka would accept the name for a topic: 1-249 of letters, digits, `.`, `_`, `-`, not `.` or
    `..`."""
    if not is_topic_name(name):
        raise BadName(f"{name!r} is not a Kafka topic name", hint="use letters, digits, '.', '_' and '-'")
    return name


@lru_cache(maxsize=4096)  # commits name the same few again and again
def is_topic_name(name: str) -> bool:
    """Whether Kafka would accept the name for a topic."""
    return _TOPIC.fullmatch(name) is not None and name not in {".", ".."}


def amount(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun, such as "1 topic" or "1,200 ranges". `plural`: with more than an s behind, such as
    "groups are" for "group is"."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def suggest_name(name: str, names: Sequence[str]) -> str:
    """Return a hint for an unknown name: the most similar name, or all names."""
    from difflib import get_close_matches  # few commands need it

    name = name[:_MEANT_MAX_CHARS]
    lower = {candidate.lower(): candidate for candidate in names}
    near = get_close_matches(name.lower(), lower, n=1, cutoff=0.6)
    return f"did you mean {lower[near[0]]}?" if near else f"known are: {', '.join(names)}"


def named(names: Sequence[str], *, most: int, of: str = "") -> str:
    """Return the first `most` of `names`, and the number of the rest: "a, b and 3 more". `of`: the noun of the rest,
    plural."""
    text = ", ".join(names[:most])
    omitted = len(names) - most
    noun = of.removesuffix("s") if omitted == 1 else of
    return f"{text} and {omitted} more {noun}".rstrip() if omitted > 0 else text
