"""The audit of an archive's retention: a line for each file that leaves it, and for each object that is deleted, in
`_audit/` at the place that a person named.

Every format that retention knows passes over that folder: indexes and manifests name no file of it, Spark leaves out
names with `_`, and no name in it is one of a topic's files, in whatever tool. They end in `.log`, so that nobody who
reads all `.jsonl` of a place takes them for records. A line is written before what it tells of, as in a backup.
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
    """The audit that lies in `files`, as store and layout of its lines. `at_ms`: the time of a run, by the clock of the
    place. Names hold it, a number that the run counts, and a random part: so they are listed in the order in which they
    were written, and nothing is replaced, though files of an archive can be."""

    files: Files
    at_ms: int = 0
    _numbers: Iterator[int] = field(default_factory=count)

    def note_files(self, going: Iterable[ExpiringFile]) -> None:
        """Before files are taken out. Raises what the place raises: then nothing may be taken out."""
        self._note(
            Deletion(kind=FILE, what=expiring.file.name, rule=expiring.why, bytes=expiring.file.size_bytes)
            for expiring in going
        )

    def note_objects(self, objects: Iterable[ExpiredObject]) -> None:
        """Before objects are deleted. Raises what the place raises: then none may be."""
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
    """A line of the audit. `kind`: a `file` leaves the archive, or an `object` the place. `state`: `done` where nothing
    of that name is there any more, else `to be done`: so is what a topic that was made anew has written under the same
    name. `problem`: why the line cannot be read; all but `what` says nothing then."""

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
    """The lines of the audit of the archive at `place`, the oldest first. Raises `BadRepositoryUrl`."""
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
