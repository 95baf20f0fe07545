"""Names that become parts of object keys: what is allowed, and a clear error for the rest.

A name that passes here can be put into an object key or a file name as it is.
"""

from __future__ import annotations

import re
from functools import lru_cache

from offsite.model.errors import BadName

_BACKUP = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


PROTECTED_TOPICS = frozenset(
    {
        "__consumer_offsets",
        "__transaction_state",
        "__share_group_state",
        "__cluster_metadata",
        "__remote_log_metadata",
    }
)
"""Topics that brokers write themselves: records produced into them from outside would corrupt the cluster."""


def check_backup_name(name: str) -> str:
    """Return `name` if it can name a backup: letters, digits, `.`, `_`, `-`, first a letter or digit, at most 128."""
    if not is_backup_name(name):
        raise BadName(
            f"{name!r} cannot name a backup",
            hint="use letters, digits, '.', '_' and '-', beginning with a letter or digit, without '..'",
        )
    return name


def is_backup_name(name: str) -> bool:
    """Whether `check_backup_name` takes `name`: a backup, a restore, a drill."""
    return _BACKUP.fullmatch(name) is not None and ".." not in name


def check_topic_name(name: str) -> str:
    """Return `name` if Kafka would accept it as a topic: 1-249 of letters, digits, `.`, `_`, `-`, not `.` or `..`."""
    if not is_topic_name(name):
        raise BadName(f"{name!r} is not a Kafka topic name", hint="use letters, digits, '.', '_' and '-'")
    return name


@lru_cache(maxsize=4096)  # commits name the same few again and again
def is_topic_name(name: str) -> bool:
    """Whether Kafka would accept it as a topic."""
    return _TOPIC.fullmatch(name) is not None and name not in {".", ".."}
