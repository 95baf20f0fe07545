"""One entry of the ledger of a declared backup: a decision of an operator."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from offsite.model.names import check_backup_name
from offsite.model.untrusted.json_codec import Count, First, Form, OptionalFirst, Spare, TimeMs, text_up_to
from offsite.model.untrusted.json_object import JsonObject
from offsite.model.untrusted.text import printable
from offsite.repository.json_form import Patterns, StoredForm, patterns_needed

REASON_MAX = 1_000
"""Characters of a person's reason for a release. Every reader of the ledger reads the reason."""
NAME_MAX = 200
"""Of the name of a resource, with its namespace."""
_MEMBER_ID = re.compile(r"[0-9a-f]{32}")
_NAME = Form(lambda document, name: printable(document.text(name)[:NAME_MAX]))
_REASON = text_up_to(REASON_MAX, on_write=False)
_BACKUP = Form(lambda document, name: check_backup_name(document.text(name)))


class DeclaredEntryKind(StrEnum):
    """The decision of an entry. An entry is one object, so a decision exists completely or not at all."""

    STARTED = "started"
    """A low-level backup starts. No other low-level backup runs or is paused."""
    PAUSED = "paused"
    """The backup copies nothing until the entry `resumed`."""
    RESUMED = "resumed"
    MODIFIED = "modified"
    """The settings or the topics of the backup change in place."""
    STOPPED = "stopped"
    """The backup ends: no commit may follow."""
    SEALED = "sealed"
    """No process can add a commit any more, not even a process that slept since the stop."""
    REMOVING = "removing"
    """The whole backup is being deleted: no process may start to read the backup."""
    REMOVED = "removed"
    """No object of the backup is left."""
    RELEASED = "released"
    """A person allowed the deletion of the backup as the backup is now, although no comparison shows that a later
    backup holds the same data."""
    JOINED = "joined"
    """A resource shares the backup from now on: the resource declares the identity that names the ledger."""
    DECLARED = "declared"
    """A resource that shares the backup has a changed spec. The changed spec counts from now on."""
    LEFT = "left"
    """A resource that shares the backup is deleted and reports the deletion; or a person reports that the resource is
    gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The claim of a backup name by the resource with that uid."""

    uid: str


def _member_id(document: JsonObject, name: str) -> str:
    """What nobody but a stranger writes is named by its hash: people type ids, so none may be empty, begin another one,
    or hold what no keyboard has."""
    text = document.text(name)
    return text if _MEMBER_ID.fullmatch(text) else hashlib.sha256(text.encode()).hexdigest()[:32]


_ID = Form(_member_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberStatement:
    """The statement of a resource with a shared backup. `id`: hash of the uid of the resource. `proof`: the uid, a
    secret of the resource: without the uid no party can report that the resource leaves. `name`: for people.
    `generation`: generation of the resource. `fields`: hash of every part of the spec that must be equal in all
    resources."""

    id: Annotated[str, _ID]
    name: Annotated[str, _NAME] = ""
    generation: Count = 0
    fields: tuple[tuple[str, str], ...] = ()
    proof: str = ""
    reason: Annotated[str, _REASON] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupSettings:
    """Settings that may change while a backup runs: checkpoint interval, and options of `offsite backup run`."""

    snapshot_duration: str
    parameters: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupStart:
    """The values with which a low-level backup starts and which the backup keeps. `backup`: name of the backup in the
    repository. `path`: the name without its timestamp. `cluster`: name of the source. Only the patterns in `topics` and
    `exclude` can change in place."""

    backup: Annotated[str, _BACKUP]
    path: str
    tag: str
    cluster: str
    topics: Annotated[Patterns, patterns_needed("a list with a pattern of topics")]
    exclude: Patterns = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicChoice:
    """A new choice of topics. No topics: no change."""

    topics: Patterns
    exclude: Patterns = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LastCommit:
    """Number and content hash of the newest commit at a place. 0 and empty: no commit."""

    commit: Count = 0
    hash: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Predecessor:
    """A low-level backup that existed when another low-level backup started. `word`: random value of the `started`
    entry of the predecessor; identifies the backup in a copy of the repository, too. `last`: the newest commit at the
    place of the predecessor at that time."""

    backup: Annotated[str, _BACKUP]
    word: str
    last: LastCommit = LastCommit()


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The history before a low-level backup. `last`: the newest commit that already lay at the place of the backup.
    `predecessors`: all low-level backups of the resource that existed, in any repository. So the order of backups is
    recorded."""

    last: LastCommit = LastCommit()
    predecessors: Annotated[tuple[Predecessor, ...], First(JsonObject.children)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A person's permission to delete the backup that ends with commit `last`, and the `reason`."""

    last: LastCommit
    reason: Annotated[str, _REASON]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredEntry:
    """One entry. `generation`: generation of the resource that led to the decision. `fence`: term of the lock of the
    deciding operator. `word`: random value. `at_ms`: time by the store's clock. `number`: number of the low-level
    backup, from 1. `by`: the deciding process, for people. `origin`: for `started`; None in entries of earlier
    versions. `member`: the statement of a resource, if resources share the backup."""

    seq: Count
    previous: str
    kind: DeclaredEntryKind
    generation: Count
    fence: Count
    word: str
    at_ms: TimeMs
    number: Count
    by: str = ""
    beginning: Spare[OptionalFirst[BackupStart]] = None
    settings: Spare[OptionalFirst[BackupSettings]] = None
    origin: Spare[OptionalFirst[Origin]] = None
    release: Spare[OptionalFirst[Release]] = None
    chosen: Spare[OptionalFirst[TopicChoice]] = None
    member: Spare[OptionalFirst[MemberStatement]] = None


DECLARED_ENTRY = StoredForm(DeclaredEntry)
OWNER = StoredForm(Owner)


def make_settings(snapshot_duration: str, parameters: Mapping[str, str]) -> BackupSettings:
    return BackupSettings(snapshot_duration=snapshot_duration, parameters=tuple(sorted(parameters.items())))
