"""The keys of declared backups: built here, parsed here, nowhere else. Pure.

declared/<uid>/ledger/<seq:020>.json        decisions about the backups of the resource with that uid, or of the
                                            resources that share a backup by that identity, create-only
declared/<uid>/lock/<term:08>.<part>.json   the operator that may decide (a lease; its term is the fencing number)
declared/<uid>/agent/<term:08>.<part>.json  the agent that copies (a lease)
declared/<uid>/agent-word.json              the report of the agent about its work (overwritten, never trusted)
declared/<uid>/audit/<seq:020>-<attempt>.jsonl
                                            deletions from the backups, noted beforehand, after entry `seq`
declared/<uid>/restore/<seq:020>.json       decisions about the restore with that uid, create-only
declared/<uid>/expiry/<term:08>.<part>.json the process that deletes old data (a lease)
declared/<uid>/probe-<word>.json            a test whether two names mean one place (deleted again, never trusted)
declared/<uid>/told.json                    the operator's note for people (overwritten, never trusted)
declared/<uid>/told/<member>.json           the same for one resource that shares a backup
declared-names/<backup>.json                the owner of the backup with that name, create-only
declared-names/<backup>/<number:08>.json    a later owner, after the earlier owners have no data left, create-only
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from offsite.model.errors import BadName
from offsite.model.names import check_backup_name
from offsite.repository.lease import Lease
from offsite.stores.store import Store

DECLARED_PREFIX = "declared/"
NAMES_PREFIX = "declared-names/"
_UID = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{7,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredLayout:
    """The keys of one resource. Raises `BadName` for an invalid uid."""

    uid: str

    def __post_init__(self) -> None:
        if not _UID.fullmatch(self.uid):
            raise BadName(
                f"{self.uid[:80]!r} is neither the uid nor the identity of a resource",
                hint="the uid is assigned when the resource is created; the identity is its spec.identity",
            )

    @property
    def ledger_prefix(self) -> str:
        return f"{DECLARED_PREFIX}{self.uid}/ledger/"

    @property
    def audit_prefix(self) -> str:
        return f"{DECLARED_PREFIX}{self.uid}/audit/"

    def audit_key(self, seq: int, attempt: str) -> str:
        return f"{self.audit_prefix}{seq:020d}-{attempt}.jsonl"

    def note_key(self, member: str = "") -> str:
        return f"{DECLARED_PREFIX}{self.uid}/told{'/' if member else ''}{member}.json"

    def probe_key(self, word: str) -> str:
        return f"{DECLARED_PREFIX}{self.uid}/probe-{word}.json"

    @property
    def kept_key(self) -> str:
        return f"{DECLARED_PREFIX}{self.uid}/kept.json"

    def read_prefix(self, number: int) -> str:
        """Prefix of the notes about the objects of low-level backup `number` that were read and found whole."""
        return f"{DECLARED_PREFIX}{self.uid}/read/{number:08d}/"

    @property
    def agent_report_key(self) -> str:
        return f"{DECLARED_PREFIX}{self.uid}/agent-word.json"

    @property
    def restore_prefix(self) -> str:
        return f"{DECLARED_PREFIX}{self.uid}/restore/"

    def lock(self, store: Store) -> Lease:
        """The lock of operators, held for one decision."""
        hint = "an operator holds it for one decision: try again in a minute"
        return self._lease(store, "lock", f"the lock of {self.uid}", hint=hint)

    def agent(self, store: Store) -> Lease:
        """The lease of the agent that copies."""
        hint = "one agent copies; another one goes on in its place when it ends, or falls silent"
        return self._lease(store, "agent", f"the backup of {self.uid}", hint=hint)

    def expiry(self, store: Store) -> Lease:
        """The lease of the job that deletes old backups."""
        hint = "one job deletes at a time: the operator tries again after its end"
        return self._lease(store, "expiry", f"the expiry of {self.uid}", hint=hint)

    def _lease(self, store: Store, role: str, resource: str, *, hint: str) -> Lease:
        return Lease(store=store, prefix=f"{DECLARED_PREFIX}{self.uid}/{role}/", resource=resource, hint=hint)


def owner_key(backup: str) -> str:
    """Key of the first claim of a backup name. Raises `BadName`."""
    return f"{NAMES_PREFIX}{check_backup_name(backup)}.json"


def later_owners(backup: str) -> str:
    """Prefix of the later claims of a backup name: each follows an owner that has nothing left. Raises `BadName`."""
    return f"{NAMES_PREFIX}{check_backup_name(backup)}/"


def later_owner_key(backup: str, number: int) -> str:
    return f"{later_owners(backup)}{number:08d}.json"
