"""The required role of every request. One table; a request outside of the table needs the highest role."""

from __future__ import annotations

import re
from enum import IntEnum
from typing import NamedTuple

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


class AccessRole(IntEnum):
    """The permissions of a caller; every role includes the roles before."""

    WATCH = 1
    """See backups and their status: no records, no jobs, no plans."""
    READ = 2
    """See everything, and plan."""
    OPERATE = 3
    """Take backups, checkpoints and checks, end jobs, call the doctor."""
    RESTORE = 4
    """Write into a cluster, and delete restore points."""


class Requirement(NamedTuple):
    """`role`: the required role; None: open to everyone. `changes`: the request changes something: the journal records
    the caller, and a read-only coordinator refuses."""

    role: AccessRole | None
    changes: bool

    @property
    def is_more_than_reading(self) -> bool:
        return self.role is not None and self.role > AccessRole.READ


class _Rule(NamedTuple):
    methods: frozenset[str]
    path: re.Pattern[str]
    requirement: Requirement


def _rule(methods: str, path: str, role: AccessRole | None, *, changes: bool) -> _Rule:
    return _Rule(frozenset(methods.split()), re.compile(path), Requirement(role, changes))


_POINTS = r"groups|pins|points|checkpoints(?:/[^/]+(?:/explanation)?)?"
_SEEN = rf"(?:status|metastores|declared|backups(?:/[^/]+(?:/(?:{_POINTS}))?)?)"
_ACTUATOR = r"/actuator/(?:backups|backupRuntime)(?:/[^/]+)?"
_BEGUN = "checkpoints|runs|verifications|drills|searches"
_RULES = (
    _rule("GET HEAD", r"/login|/static/[a-z.]+|/healthz", None, changes=False),
    _rule("POST", r"/login|/logout", None, changes=False),
    _rule("GET", r"/api/v1/doctor", AccessRole.OPERATE, changes=False),
    _rule("GET HEAD", rf"/|/openapi\.json|/(?:api/v1/)?{_SEEN}|{_ACTUATOR}", AccessRole.WATCH, changes=False),
    _rule("GET HEAD OPTIONS", r"/.*", AccessRole.READ, changes=False),
    _rule("POST", r"/api/v1/(.*/)?plan", AccessRole.READ, changes=False),
    _rule("POST", r"/backups/[^/]+/restore/plan", AccessRole.READ, changes=False),
    _rule("POST", rf"/(api/v1/)?backups/[^/]+/({_BEGUN})", AccessRole.OPERATE, changes=True),
    _rule("POST", r"/(api/v1/)?jobs/[^/]+/cancel", AccessRole.OPERATE, changes=True),
    _rule("POST", r"/actuator/(backups|backupRuntime)(/state/sync)?", AccessRole.OPERATE, changes=True),
)


def find_requirement(method: str, path: str) -> Requirement:
    """Return the requirement of a request. `path`: decoded, without query."""
    rules = (rule.requirement for rule in _RULES if method in rule.methods and rule.path.fullmatch(path))
    return next(rules, Requirement(AccessRole.RESTORE, changes=True))
