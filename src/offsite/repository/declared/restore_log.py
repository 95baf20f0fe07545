"""The decisions about one declared restore: attempts, and the end. A numbered log, create-only.

Jobs report the progress of a restore, but old job records may be deleted, and a status may be lost. The log stays: a
restore that is over in the log never starts again. As in the ledger of backups, every entry carries the term of the
lock under which the entry was decided, and a lower term is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, TypeAlias

from offsite.model.untrusted.json_codec import Count, Form, OptionalFirst, Spare, TimeMs, text_up_to
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.json_form import StoredForm
from offsite.stores.numbered_log import EntryRefusedError, Ledger, LedgerForm
from offsite.stores.store import Store

TEXT_MAX = 4000
"""Characters of an error text that are stored."""
_TEXT = text_up_to(TEXT_MAX, on_read=False)
_VERIFIED = Form(
    lambda document, name: {"yes": True, "no": False}.get(document.text(name)),
    lambda verified: "" if verified is None else "yes" if verified else "no",
)


class AttemptOutcome(StrEnum):
    """The outcome of an attempt."""

    SUCCEEDED = "succeeded"
    PARTIAL = "partial"
    FAILED = "failed"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"
    """The records of the job were deleted before an operator read them."""
    LOST = "lost"
    """The process of the job vanished, and was shut out: the next attempt continues."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The final error of a command: id, message, hint."""

    id: Annotated[str, _TEXT]
    message: Annotated[str, _TEXT]
    hint: Annotated[str, _TEXT] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnd:
    """The end of an attempt. `job`: id of the job; empty: no job started. `verified`: whether all written records were
    read back and are equal; None: not compared."""

    outcome: AttemptOutcome
    job: str = ""
    verified: Annotated[bool | None, _VERIFIED] = None
    failure: Spare[OptionalFirst[Failure]] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreEntry:
    """One entry: attempt number `attempt` starts, or ended as in `end`. `fence`: term of the lock. `word`: random
    value. `at_ms`: time by the store's clock. `by`: the deciding process, for people."""

    seq: Count
    previous: str
    attempt: Count
    fence: Count
    word: str
    at_ms: TimeMs
    by: str = ""
    end: Spare[OptionalFirst[AttemptEnd]] = None


RESTORE_ENTRY = StoredForm(RestoreEntry)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreHistory:
    """The state after entry `seq`. `attempt`: number of the newest attempt, 0: none. `begun_ms`: its start. `end`,
    `ended_ms`: its end; None: not ended."""

    uid: str
    seq: int = 0
    head: str = ""
    fence: int = 0
    attempt: int = 0
    begun_ms: int = 0
    end: AttemptEnd | None = None
    ended_ms: int = 0

    @property
    def is_over(self) -> bool:
        """Whether the restore is finished: no attempt starts any more."""
        return self.end is not None and self.end.outcome is not AttemptOutcome.LOST

    @property
    def is_under_way(self) -> bool:
        return self.attempt > 0 and self.end is None


def apply_restore_entry(history: RestoreHistory, entry: RestoreEntry, *, head: str) -> RestoreHistory:
    """Return the state after an entry whose hash is `head`. Raises `EntryRefusedError`."""
    if (entry.seq, entry.previous) != (history.seq + 1, history.head):
        raise EntryRefusedError(f"entry {entry.seq} does not follow entry {history.seq}")
    if entry.fence < history.fence:
        raise EntryRefusedError(
            f"entry {entry.seq} was written under lock {entry.fence}, but lock {history.fence} is newer"
        )
    if history.is_over:
        raise EntryRefusedError(f"entry {entry.seq} is about a restore that is over")
    changed = _begun(history, entry) if entry.end is None else _ended(history, entry)
    return replace(changed, seq=entry.seq, head=head, fence=entry.fence)


def _begun(history: RestoreHistory, entry: RestoreEntry) -> RestoreHistory:
    if history.is_under_way or entry.attempt != history.attempt + 1:
        raise EntryRefusedError(f"attempt {entry.attempt} cannot begin: the last attempt is {history.attempt}")
    return replace(history, attempt=entry.attempt, begun_ms=entry.at_ms, end=None, ended_ms=0)


def _ended(history: RestoreHistory, entry: RestoreEntry) -> RestoreHistory:
    is_lost = entry.end is not None and entry.end.outcome is AttemptOutcome.LOST
    if entry.attempt != history.attempt or (is_lost and not history.is_under_way):
        raise EntryRefusedError(f"attempt {entry.attempt} cannot end: the last attempt is {history.attempt}")
    return replace(history, end=entry.end, ended_ms=entry.at_ms)


_FORM = LedgerForm(
    encode=RESTORE_ENTRY.encode,
    decode=RESTORE_ENTRY.decode,
    apply=lambda history, entry, head: apply_restore_entry(history, entry, head=head),
)

RestoreLog: TypeAlias = Ledger[RestoreEntry, RestoreHistory]


def restore_log(store: Store, uid: str) -> RestoreLog:
    """The log of a declared restore. Raises `BadName`."""
    return Ledger(store=store, prefix=DeclaredLayout(uid=uid).restore_prefix, form=_FORM, first=RestoreHistory(uid=uid))
