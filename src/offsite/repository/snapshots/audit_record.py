"""The audit of deletions: author, subject, time and rule. One line per deletion, in small objects, kept forever. The
objects lie in the backup concerned, beside the ledger of a set of generations, or in an archive.

The line is written before the deletion: no deletion lacks a line, wherever a process is killed. A line therefore states
a planned deletion. For a commit that removes data, the line holds the writer's mark, and the commit log shows whether
the commit was made. An object may have several lines, if a deletion was interrupted and repeated.

Anyone with write access can forge lines. Readers report lines as statements of the place, not as facts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from offsite.model.errors import Damaged, FormatTooNew
from offsite.model.ids import random_id
from offsite.model.units import MIB
from offsite.model.untrusted.json_codec import Count, Inline
from offsite.repository.json_form import StoredForm
from offsite.repository.lease import ProcessIdentity
from offsite.stores.store import PutResult

LINES_PER_OBJECT = 5_000
_NAME = re.compile(r"\d{20}(?:-\d{6})?-[0-9a-f]{8}\.(?:jsonl|log)", re.ASCII)  # `log`: in an archive
_OBJECT_BYTES_MAX = 64 * MIB
"""Larger objects are foreign."""

POINTS = "points"
RANGE = "range"
RECORDS = "records"
OBJECT = "object"
GENERATION = "generation"
FILE = "file"


class AuditObject(Protocol):
    """An object of audit lines, as listed."""

    @property
    def key(self) -> str: ...

    @property
    def size_bytes(self) -> int: ...


class AuditStore(Protocol):
    """The operations of a store that the audit needs. Objects are created, and never replaced."""

    def now_ms(self) -> int: ...

    def put_if_absent(self, key: str, data: bytes) -> PutResult: ...

    def get(self, key: str) -> bytes | None: ...

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[AuditObject]: ...


class AuditLayout(Protocol):
    """The keys of the audit, ordered by commit number."""

    @property
    def audit_prefix(self) -> str: ...

    def audit_key(self, seq: int, attempt: str) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """One planned deletion: restore points, a range of a partition, an object, a generation, or a file of an archive
    (`kind`), named by `what`, with the `rule` behind the deletion and the bytes freed in the store."""

    kind: str
    what: str
    rule: str
    bytes: Count = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLine:
    """A noted deletion: when, by the store's clock (epoch ms); by `who`; for which kind of work (`by`). `commit`: the
    newest commit at the time (for a set of generations: the newest entry of its ledger; for an archive: 0). `writer`:
    the mark of the commit to follow, empty without one."""

    at_ms: Count
    who: str
    by: str
    commit: Count
    writer: str
    deletion: Inline[Deletion]


_LINE = StoredForm(AuditLine)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableLine:
    """An unreadable line or object of lines, and the problem."""

    key: str
    problem: str


def note_deletions(  # noqa: PLR0913  # all by keyword but what goes, and where it is noted
    store: AuditStore, layout: AuditLayout, deletions: Sequence[Deletion], *, by: str, commit: int, writer: str = ""
) -> None:
    """Write the lines of planned deletions, before any deletion. `by`: the kind of work; `commit`: the newest commit;
    `writer`: the mark of the commit to follow. Raises errors of the store: nothing may be deleted in that case."""
    who, at_ms = ProcessIdentity.current().text, store.now_ms()
    for first in range(0, len(deletions), LINES_PER_OBJECT):
        lines = (
            AuditLine(at_ms=at_ms, who=who, by=by, commit=commit, writer=writer, deletion=deletion)
            for deletion in deletions[first : first + LINES_PER_OBJECT]
        )
        data = b"".join(_LINE.encode(line) for line in lines)
        store.put_if_absent(layout.audit_key(commit, random_id()), data)


def read_audit(
    store: AuditStore, layout: AuditLayout, *, after: int = -1, upto: int | None = None
) -> Iterator[AuditLine | UnreadableLine]:
    """The audit lines, ordered by the newest commit at the time of noting. Lines of commit `after` and before, and
    lines behind commit `upto`, are left out. A damaged line is reported, and does not hide other lines."""
    start_after = layout.audit_key(after, "ffffffff") if after >= 0 else ""
    for info in _objects(store, layout, start_after):
        if upto is not None and info.key > layout.audit_key(upto, "ffffffff"):
            return
        yield from _lines(store, info)


def read_newest_audit(
    store: AuditStore, layout: AuditLayout, *, most: int
) -> tuple[list[AuditLine | UnreadableLine], bool]:
    """The lines of the newest objects that hold `most` lines together, or of all objects, and whether there are older
    ones. In the order of `read_audit`."""
    objects, lines = list(_objects(store, layout)), list[AuditLine | UnreadableLine]()
    while objects and len(lines) < most:
        lines[:0] = _lines(store, objects.pop())
    return lines, bool(objects)


def _objects(store: AuditStore, layout: AuditLayout, start_after: str = "") -> Iterator[AuditObject]:
    """The objects of audit lines; foreign objects are left out."""
    for info in store.list(layout.audit_prefix, start_after=start_after):
        if _NAME.fullmatch(info.key.removeprefix(layout.audit_prefix)):
            yield info


def _lines(store: AuditStore, info: AuditObject) -> Iterator[AuditLine | UnreadableLine]:
    if info.size_bytes > _OBJECT_BYTES_MAX:
        yield UnreadableLine(key=info.key, problem=f"it has {info.size_bytes} bytes")
        return
    stored = store.get(info.key) or b""
    if (count := stored.count(b"\n") + stored.count(b"\r")) > LINES_PER_OBJECT:
        yield UnreadableLine(key=info.key, problem=f"it has {count:,} lines, which no audit has in one object")
        return
    for number, data in enumerate(stored.splitlines(keepends=True), start=1):
        try:
            yield _LINE.decode(data, key=f"{info.key}:{number}")
        except (Damaged, FormatTooNew) as error:
            yield UnreadableLine(key=f"{info.key}:{number}", problem=error.message)
