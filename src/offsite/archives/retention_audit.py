"""The audit of an archive's retention: a line for every file removed from the archive, and for every deleted object, in
`_audit/` at the place named by a person.

Every format supported by retention ignores the folder: no index or manifest names an audit file, Spark ignores names
with `_`, and no tool names a topic's file like an audit file. Audit names end in `.log`, so a reader of all `.jsonl`
files takes no audit line for a record. A line is written before the event, as in a backup.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count

from offsite.archives.files import FileInfo, Files
from offsite.archives.retention import ExpiredObject, ExpiringFile
from offsite.repository.snapshots.audit_record import (
    FILE,
    OBJECT,
    AuditLine,
    Deletion,
    UnreadableLine,
    note_deletions,
    read_audit,
)
from offsite.stores.open_store import open_archive_files
from offsite.stores.store import PutResult

BY = "archive retention"
COLLECTED = "retention took its file out of the archive"
DONE, TO_BE_DONE = "done", "to be done"

_PREFIX = "_audit/"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveAudit:
    """The audit in `files`, as store and layout of the lines. `at_ms`: time of a run, by the clock of the place. Names
    contain the time, a number counted by the run, and a random part: listings keep the order of writing, and nothing is
    replaced, though files of an archive may be replaced."""

    files: Files
    at_ms: int = 0
    _numbers: Iterator[int] = field(default_factory=count)

    def note_files(self, going: Iterable[ExpiringFile]) -> None:
        """Record files before removal. Raises the errors of the place: on an error nothing may be removed."""
        self._note(
            Deletion(kind=FILE, what=expiring.file.name, rule=expiring.why, bytes=expiring.file.size_bytes)
            for expiring in going
        )

    def note_objects(self, objects: Iterable[ExpiredObject]) -> None:
        """Record objects before deletion. Raises the errors of the place: on an error nothing may be deleted."""
        self._note(
            Deletion(kind=OBJECT, what=expired_object.key, rule=COLLECTED, bytes=expired_object.size_bytes)
            for expired_object in objects
        )

    def _note(self, deletions: Iterable[Deletion]) -> None:
        note_deletions(self, self, tuple(deletions), by=BY, commit=0)

    @property
    def audit_prefix(self) -> str:
        return _PREFIX

    def audit_key(self, seq: int, attempt: str) -> str:  # noqa: ARG002  # an archive has no commits
        return f"{_PREFIX}{self.at_ms:020d}-{next(self._numbers):06d}-{attempt}.log"

    def now_ms(self) -> int:
        return self.at_ms

    def put_if_absent(self, key: str, data: bytes) -> PutResult:
        self.files.put(key, data)
        return PutResult.CREATED

    def get(self, key: str) -> bytes | None:
        return self.files.get(key)

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[FileInfo]:
        return (info for info in self.files.list(prefix) if info.key > start_after)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveAuditReport:
    """A line of the audit. `kind`: a `file` leaves the archive, or an `object` leaves the place. `state`: `done` if
    nothing has the name any more, else `to be done`, also when a recreated topic wrote a file of the same name.
    `problem`: why the line is unreadable; then only `what` is valid."""

    at_ms: int = 0
    who: str = ""
    by: str = ""
    kind: str = ""
    what: str = ""
    rule: str = ""
    bytes: int = 0
    state: str = ""
    problem: str = ""


def read_audit_reports(place: str) -> Iterator[ArchiveAuditReport]:
    """Yield the audit lines of the archive at `place`, the oldest first. Raises `BadRepositoryUrl`."""
    files = open_archive_files(place)
    present_keys: frozenset[str] | None = None
    for line in read_audit(audit := ArchiveAudit(files=files), audit):
        if present_keys is None:
            present_keys = frozenset(info.key for info in files.list())
        yield _report(line, present_keys)


def _report(line: AuditLine | UnreadableLine, present_keys: frozenset[str]) -> ArchiveAuditReport:
    if isinstance(line, UnreadableLine):
        return ArchiveAuditReport(what=line.key, problem=line.problem)
    deletion = line.deletion
    return ArchiveAuditReport(
        at_ms=line.at_ms,
        who=line.who,
        by=line.by,
        kind=deletion.kind,
        what=deletion.what,
        rule=deletion.rule,
        bytes=deletion.bytes,
        state=TO_BE_DONE if deletion.what in present_keys else DONE,
    )
