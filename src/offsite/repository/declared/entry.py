"""One entry of the ledger of a declared backup: a decision of an operator."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from offsite.model.bounds import MAX_COMMIT_TIME_MS
from offsite.model.errors import DamagedObject
from offsite.model.names import check_backup_name
from offsite.model.untrusted.json_object import JsonObject, JsonValue
from offsite.model.untrusted.text import printable
from offsite.repository.json_form import FORMAT, encode_object, parse_json_object, patterns_of

REASON_MAX = 1_000
"""Characters of a person's reason for a release. Every reader of the ledger reads the reason."""
NAME_MAX = 200
"""Of the name of a resource, with its namespace."""
_MEMBER_ID = re.compile(r"[0-9a-f]{32}")


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
class MemberStatement:
    """The statement of a resource with a shared backup. `id`: hash of the uid of the resource. `proof`: the uid, a
    secret of the resource: without the uid no party can report that the resource leaves. `name`: for people.
    `generation`: generation of the resource. `fields`: hash of every part of the spec that must be equal in all
    resources."""

    id: str
    name: str = ""
    generation: int = 0
    fields: tuple[tuple[str, str], ...] = ()
    proof: str = ""
    reason: str = ""


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

    backup: str
    path: str
    tag: str
    cluster: str
    topics: tuple[str, ...]
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LastCommit:
    """Number and content hash of the newest commit at a place. 0 and empty: no commit."""

    commit: int = 0
    hash: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Predecessor:
    """A low-level backup that existed when another low-level backup started. `word`: random value of the `started`
    entry of the predecessor; identifies the backup in a copy of the repository, too. `last`: the newest commit at the
    place of the predecessor at that time."""

    backup: str
    word: str
    last: LastCommit = LastCommit()


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The history before a low-level backup. `last`: the newest commit that already lay at the place of the backup.
    `predecessors`: all low-level backups of the resource that existed, in any repository. So the order of backups is
    recorded."""

    last: LastCommit = LastCommit()
    predecessors: tuple[Predecessor, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A person's permission to delete the backup that ends with commit `last`, and the `reason`."""

    last: LastCommit
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredEntry:
    """One entry. `generation`: generation of the resource that led to the decision. `fence`: term of the lock of the
    deciding operator. `word`: random value. `at_ms`: time by the store's clock. `number`: number of the low-level
    backup, from 1. `by`: the deciding process, for people. `origin`: for `started`; None in entries of earlier
    versions. `topics`, `exclude`: the new choice of topics; no topics: no change. `member`: the statement of a
    resource, if resources share the backup."""

    seq: int
    previous: str
    kind: DeclaredEntryKind
    generation: int
    fence: int
    word: str
    at_ms: int
    number: int
    by: str = ""
    beginning: BackupStart | None = None
    settings: BackupSettings | None = None
    origin: Origin | None = None
    release: Release | None = None
    topics: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    member: MemberStatement | None = None


def encode_entry(entry: DeclaredEntry) -> bytes:
    fields: dict[str, JsonValue] = {
        "format": FORMAT,
        "seq": entry.seq,
        "previous": entry.previous,
        "kind": entry.kind.value,
        "generation": entry.generation,
        "fence": entry.fence,
        "word": entry.word,
        "at_ms": entry.at_ms,
        "number": entry.number,
        "by": entry.by,
    }
    if (beginning := entry.beginning) is not None:
        fields["beginning"] = {
            "backup": beginning.backup,
            "path": beginning.path,
            "tag": beginning.tag,
            "cluster": beginning.cluster,
            "topics": list(beginning.topics),
            "exclude": list(beginning.exclude),
        }
    if entry.settings is not None:
        fields["settings"] = {
            "snapshot_duration": entry.settings.snapshot_duration,
            "parameters": dict(entry.settings.parameters),
        }
    if entry.origin is not None:
        fields["origin"] = {
            "last": _last_fields(entry.origin.last),
            "predecessors": [
                {"backup": predecessor.backup, "word": predecessor.word, "last": _last_fields(predecessor.last)}
                for predecessor in entry.origin.predecessors
            ],
        }
    if entry.release is not None:
        fields["release"] = {"last": _last_fields(entry.release.last), "reason": entry.release.reason}
    if entry.topics:
        fields["chosen"] = {"topics": list(entry.topics), "exclude": list(entry.exclude)}
    if (member := entry.member) is not None:
        fields["member"] = {
            "id": member.id,
            "name": member.name,
            "generation": member.generation,
            "fields": dict(member.fields),
            "proof": member.proof,
            "reason": member.reason,
        }
    return encode_object(fields)


def decode_entry(data: bytes, *, key: str) -> DeclaredEntry:
    """Decode the entry `data` of the object `key`. Raises `DamagedObject`, `FormatTooNew`, `BadName`."""
    document = parse_json_object(data, source=key, damaged=DamagedObject)
    beginning, settings = document.optional_child("beginning"), document.optional_child("settings")
    origin, release = document.optional_child("origin"), document.optional_child("release")
    chosen, member = document.optional_child("chosen"), document.optional_child("member")
    return DeclaredEntry(
        seq=document.count("seq"),
        previous=document.text("previous"),
        kind=document.member("kind", DeclaredEntryKind),
        generation=document.count("generation"),
        fence=document.count("fence"),
        word=document.text("word"),
        at_ms=document.integer("at_ms", least=0, most=MAX_COMMIT_TIME_MS),
        number=document.count("number"),
        by=document.text("by"),
        beginning=None if beginning is None else _beginning(beginning),
        settings=None if settings is None else _settings(settings),
        origin=None if origin is None else _origin(origin),
        release=None
        if release is None
        else Release(last=_last(release.child("last")), reason=release.text("reason")[:REASON_MAX]),
        topics=() if chosen is None else patterns_of(chosen, "topics"),
        exclude=() if chosen is None else patterns_of(chosen, "exclude"),
        member=None if member is None else _member(member),
    )


def encode_owner(uid: str) -> bytes:
    """Encode the claim of a backup name by the resource with that uid."""
    return encode_object({"format": FORMAT, "uid": uid})


def decode_owner(data: bytes, *, key: str) -> str:
    """Return the uid of the claim. Raises `DamagedObject`, `FormatTooNew`."""
    return parse_json_object(data, source=key, damaged=DamagedObject).text("uid")


def make_settings(snapshot_duration: str, parameters: Mapping[str, str]) -> BackupSettings:
    return BackupSettings(snapshot_duration=snapshot_duration, parameters=tuple(sorted(parameters.items())))


def _member(document: JsonObject) -> MemberStatement:
    return MemberStatement(
        id=_member_id(document.text("id")),
        name=printable(document.text("name")[:NAME_MAX]),
        generation=document.count("generation"),
        fields=document.text_map("fields"),
        proof=document.text("proof"),
        reason=document.text("reason")[:REASON_MAX],
    )


def _member_id(text: str) -> str:
    """What nobody but a stranger writes is named by its hash: people type ids, so none may be empty, begin another one,
    or hold what no keyboard has."""
    return text if _MEMBER_ID.fullmatch(text) else hashlib.sha256(text.encode()).hexdigest()[:32]


def _beginning(document: JsonObject) -> BackupStart:
    if not document.texts("topics"):
        raise document.wrong("topics", "a list with a pattern of topics")
    return BackupStart(
        backup=check_backup_name(document.text("backup")),
        path=document.text("path"),
        tag=document.text("tag"),
        cluster=document.text("cluster"),
        topics=patterns_of(document, "topics"),
        exclude=patterns_of(document, "exclude"),
    )


def _settings(document: JsonObject) -> BackupSettings:
    return BackupSettings(
        snapshot_duration=document.text("snapshot_duration"), parameters=document.text_map("parameters")
    )


def _origin(document: JsonObject) -> Origin:
    predecessors = (
        Predecessor(
            backup=check_backup_name(child.text("backup")), word=child.text("word"), last=_last(child.child("last"))
        )
        for child in document.children("predecessors")
    )
    return Origin(last=_last(document.child("last")), predecessors=tuple(predecessors))


def _last_fields(last: LastCommit) -> dict[str, JsonValue]:
    return {"commit": last.commit, "hash": last.hash}


def _last(document: JsonObject) -> LastCommit:
    return LastCommit(commit=document.count("commit"), hash=document.text("hash"))
