"""The status of declared backups from the repository alone: no operator needs to run, and no status file is
believed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from offsite.model.errors import Damaged, FormatTooNew
from offsite.model.units import format_time
from offsite.repository.declared.history import DeclaredHistory, LowLevelBackup
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.declared.ledger import declared_ledger, declared_uids
from offsite.repository.declared.notes import DeclaredNote, get_note
from offsite.repository.lease import Lease, ProcessIdentity
from offsite.stores.store import Store
from offsite.stores.wrapped_store import display_now_ms

SILENT_MS = 300_000
"""An operator writes a note once a minute."""
_NOTES_MAX = 64
"""Notes that are read for a shared backup: a stranger may let any number of resources join."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LowLevelReport:
    """One low-level backup. Times in epoch ms by the store's clock, 0: not yet."""

    number: int
    backup: str
    tag: str
    cluster: str
    topics: tuple[str, ...]
    exclude: tuple[str, ...]
    phase: str
    started_ms: int
    stopped_ms: int
    snapshot_duration: str
    parameters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredReport:
    """One declared resource. A Backup has `backups`, the newest first, and with an identity (then the `uid`) the
    `members` that share the backup, in words. A Restore or Schedule has `facts`, as in the status of the resource.
    `kind`, `name`, `conditions` (type → message; for a shared backup the type names the resource), `facts` and `queue`
    (place in the expiry queue, 0: none) come from the operator's note at `told_at_ms` (epoch ms, -1: never). `agent`,
    `operator`, `expiry`: the processes that now copy, decide and delete; empty: none. `silent`: no operator has written
    a note for five minutes, so the note may be outdated. `problem`: why nothing else is known."""

    uid: str
    kind: str = "Backup"
    generation: int = 0
    backups: tuple[LowLevelReport, ...] = ()
    members: tuple[str, ...] = ()
    agent: str = ""
    operator: str = ""
    expiry: str = ""
    name: str = ""
    conditions: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    queue: int = 0
    told_at_ms: int = -1
    silent: bool = True
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredList:
    resources: tuple[DeclaredReport, ...]


def read_declared_status(store: Store) -> DeclaredList:
    """Report all resources with a ledger or a note here. A damaged resource is reported, and hides no other. Raises the
    errors of the store."""
    now_ms = display_now_ms(store)
    return DeclaredList(resources=tuple(_report(store, uid, now_ms) for uid in declared_uids(store)))


def _report(store: Store, uid: str, now_ms: int) -> DeclaredReport:
    layout = DeclaredLayout(uid=uid)
    try:
        history = declared_ledger(store, layout.uid).read()
        note = _join_notes(store, layout, history, now_ms) if history.members else get_note(store, layout)
        holders = [_holder(lease, now_ms) for lease in (layout.agent(store), layout.lock(store), layout.expiry(store))]
    except (Damaged, FormatTooNew) as error:
        return DeclaredReport(uid=uid, problem=f"{error.id}: {error.message}")
    agent, operator, expiry = holders
    return DeclaredReport(
        uid=uid,
        generation=history.generation,
        backups=_newest_first(history),
        members=tuple(str(member) for member in history.members if member.has_word),
        agent=agent,
        operator=operator,
        expiry=expiry,
        name=note.name if note else "",
        kind=note.kind if note else "Backup",
        facts=dict(note.facts) if note else {},
        conditions=dict(note.conditions) if note else {},
        queue=note.queue if note else 0,
        told_at_ms=note.at_ms if note else -1,
        silent=note is None or now_ms - note.at_ms > SILENT_MS,
    )


def _join_notes(store: Store, layout: DeclaredLayout, history: DeclaredHistory, now_ms: int) -> DeclaredNote | None:
    """Join the notes of the resources that share a backup, the newest `_NOTES_MAX` of them. Conditions stay apart: one
    resource may be as declared, another may not. None: there is no note."""
    sharing = [member for member in history.members if member.has_word][-_NOTES_MAX:]
    read = ((member, get_note(store, layout, member=member.id)) for member in sharing)
    notes = [(member, note) for member, note in read if note is not None]
    if not notes:
        return None
    newest = max((note for _, note in notes), key=lambda note: note.at_ms)
    conditions = [(f"{kind} of {member}", message) for member, note in notes for kind, message in note.conditions]
    if now_ms - newest.at_ms <= SILENT_MS:
        conditions += [
            (f"Silence of {member}", f"no operator has reported since {format_time(note.at_ms)}")
            for member, note in notes
            if now_ms - note.at_ms > SILENT_MS
        ]
    return replace(newest, conditions=tuple(conditions))


def _holder(lease: Lease, now_ms: int) -> str:
    claim = lease.holder(asking=ProcessIdentity.current(), now_ms=now_ms)
    return "" if claim is None else claim.holder.text


def _newest_first(history: DeclaredHistory) -> tuple[LowLevelReport, ...]:
    return tuple(_low(backup) for backup in reversed(history.backups))


def _low(low: LowLevelBackup) -> LowLevelReport:
    beginning = low.beginning
    return LowLevelReport(
        number=low.number,
        backup=beginning.backup,
        tag=beginning.tag,
        cluster=beginning.cluster,
        topics=beginning.topics,
        exclude=beginning.exclude,
        phase=low.phase.value,
        started_ms=low.started_ms,
        stopped_ms=low.stopped_ms,
        snapshot_duration=low.settings.snapshot_duration,
        parameters=dict(low.settings.parameters),
    )
