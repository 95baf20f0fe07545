"""What one has to be allowed for each request. One table, and what is in none of its lines needs the most."""

from __future__ import annotations

import re
from enum import IntEnum
from typing import NamedTuple

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


class Role(IntEnum):
    """What a caller may do; each may do what is before it, too."""

    WATCH = 1
    """See what is backed up, and how it stands: no record, no job, no plan."""
    READ = 2
    """See everything, and plan."""
    OPERATE = 3
    """Take backups, checkpoints and checks, end jobs, call the doctor."""
    RESTORE = 4
    """Write into a cluster, and let go restore points."""


class Needed(NamedTuple):
    """`role`: None for everybody, also strangers. `changes`: something, so that it is told who did it, and refused
    where this coordinator only shows."""

    role: Role | None
    changes: bool

    @property
    def is_more_than_reading(self) -> bool:
        return self.role is not None and self.role > Role.READ


class _Rule(NamedTuple):
    methods: frozenset[str]
    path: re.Pattern[str]
    needed: Needed


def _rule(methods: str, path: str, role: Role | None, *, changes: bool) -> _Rule:
    return _Rule(frozenset(methods.split()), re.compile(path), Needed(role, changes))


_POINTS = r"groups|pins|points|checkpoints(?:/[^/]+(?:/explanation)?)?"
_SEEN = rf"(?:status|metastores|declared|backups(?:/[^/]+(?:/(?:{_POINTS}))?)?)"
_ACTUATOR = r"/actuator/(?:backups|backupRuntime)(?:/[^/]+)?"
_BEGUN = "checkpoints|runs|verifications|drills|searches"
_RULES = (
    _rule("GET HEAD", r"/login|/static/[a-z.]+|/healthz", None, changes=False),
    _rule("POST", r"/login|/logout", None, changes=False),
    _rule("GET", r"/api/v1/doctor", Role.OPERATE, changes=False),
    _rule("GET HEAD", rf"/|/openapi\.json|/(?:api/v1/)?{_SEEN}|{_ACTUATOR}", Role.WATCH, changes=False),
    _rule("GET HEAD OPTIONS", r"/.*", Role.READ, changes=False),
    _rule("POST", r"/api/v1/(.*/)?plan", Role.READ, changes=False),
    _rule("POST", r"/backups/[^/]+/restore/plan", Role.READ, changes=False),
    _rule("POST", rf"/(api/v1/)?backups/[^/]+/({_BEGUN})", Role.OPERATE, changes=True),
    _rule("POST", r"/(api/v1/)?jobs/[^/]+/cancel", Role.OPERATE, changes=True),
    _rule("POST", r"/actuator/(backups|backupRuntime)(/state/sync)?", Role.OPERATE, changes=True),
)


def needed(method: str, path: str) -> Needed:
    """What a request needs; `path` is decoded, without a query."""
    rules = (each.needed for each in _RULES if method in each.methods and each.path.fullmatch(path))
    return next(rules, Needed(Role.RESTORE, changes=True))
