"""The keys of the generations of a set: built and parsed only here. Pure.

generations/<set>/ledger/<seq:020>.json     decisions on its generations, create-only
generations/<set>/kept.json                 why the previous generation stays (overwritten, never trusted)
generations/<set>/audit/<seq:020>-<attempt>.jsonl
                                            deletions, noted when entry `seq` was the newest
backups/<set>.gen-<n>/...                   generation n, where generations are backups
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from offsite.model.names import check_backup_name
from offsite.repository.layout import BackupLayout

SETS_PREFIX = "generations/"

_ENTRY = re.compile(r"generations/[^/]+/ledger/(\d{20})\.json", re.ASCII)
_BACKUP = re.compile(r"(?P<set>.+)\.gen-(?P<number>[1-9]\d{0,8})", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetLayout:
    """The keys of a set of generations. Raises `BadName` for a name that could leave its place, or has no room for the
    number of a generation."""

    name: str

    def __post_init__(self) -> None:
        check_backup_name(self.name)
        check_backup_name(self.backup_name(999_999_999))

    @property
    def ledger_prefix(self) -> str:
        return f"{SETS_PREFIX}{self.name}/ledger/"

    def entry_key(self, seq: int) -> str:
        return f"{self.ledger_prefix}{seq:020d}.json"

    @property
    def audit_prefix(self) -> str:
        return f"{SETS_PREFIX}{self.name}/audit/"

    def audit_key(self, seq: int, attempt: str) -> str:
        return f"{self.audit_prefix}{seq:020d}-{attempt}.jsonl"

    @property
    def kept_key(self) -> str:
        return f"{SETS_PREFIX}{self.name}/kept.json"

    def backup_name(self, generation: int) -> str:
        """The name of the backup of the generation."""
        return f"{self.name}.gen-{generation}"

    def backup(self, generation: int) -> BackupLayout:
        return BackupLayout(backup=self.backup_name(generation))


def parse_entry_key(key: str) -> int | None:
    """The entry number in `key`; None for a foreign key."""
    match = _ENTRY.fullmatch(key)
    return None if match is None else int(match[1])


def set_of_backup(name: str) -> tuple[str, int] | None:
    """The set and the generation number that a backup of the name may have; None if impossible."""
    match = _BACKUP.fullmatch(name)
    return None if match is None else (match["set"], int(match["number"]))
