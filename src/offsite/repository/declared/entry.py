"""One entry of the ledger of a declared backup: something that an operator decided of it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from offsite.model.errors import DamagedObject
from offsite.model.untrusted.bounds import MAX_COMMIT_TIME_MS
from offsite.model.untrusted.json_object import JsonObject, JsonValue
from offsite.model.untrusted.names import check_backup_name
from offsite.model.untrusted.printable import printable
from offsite.repository.json_form import FORMAT, encode_object, parse_json_object, patterns_of

REASON_MAX = 1_000
"""Characters of why a person let something go: every reader of the ledger reads it."""
NAME_MAX = 200
"""Of the name of a resource, with its namespace."""
_MEMBER_ID = re.compile(r"[0-9a-f]{32}")


class Kind(StrEnum):
    """What an entry decides. Each is one object, so it is decided or it is not."""

    STARTED = "started"
    """A low-level backup begins. There is none that runs or is paused."""
    PAUSED = "paused"
    """It copies nothing until it is resumed."""
    RESUMED = "resumed"
    MODIFIED = "modified"
    """Its settings, or its topics, change in place."""
    STOPPED = "stopped"
    """It ends: nothing is to be added to it any more."""
    SEALED = "sealed"
    """Nothing can be added to it any more, also by whoever slept since it was stopped."""
    REMOVING = "removing"
    """It is being deleted as a whole: nobody may begin to read it."""
    REMOVED = "removed"
    """Nothing of it is left."""
    RELEASED = "released"
    """A person said that it may go as it lies there, though nobody can show that a later one holds what it does."""
    JOINED = "joined"
    """A resource shares the backup from now on: it declares the identity that the ledger is named by."""
    DECLARED = "declared"
    """A resource that shares it declares something else than before: that counts from now on."""
    LEFT = "left"
    """A resource that shares it is deleted, and says so itself; or a person says that it is gone."""


class NotAllowedError(Exception):
    """An entry that the state before it does not allow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """What a resource that shares a backup says of itself. `id`: a hash of its uid, and `proof` that uid, which nobody
    else knows: so nobody else says that it let go. `name`: for people; `generation`: of the resource; `fields`: a hash
    of each part of its spec that all have to declare alike."""

    id: str
    name: str = ""
    generation: int = 0
    fields: tuple[tuple[str, str], ...] = ()
    proof: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What may change while a backup goes on: how often a checkpoint is taken, and options of `offsite backup run`."""

    snapshot_duration: str
    parameters: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """What a low-level backup is begun with, and keeps: the name of the backup in the repository, `path`, which is that
    name before its timestamp, the tag, the source by its name; and the patterns of topics, which change in place."""

    backup: str
    path: str
    tag: str
    cluster: str
    topics: tuple[str, ...]
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LastCommit:
    """The newest commit that lay in a place: its number, and the hash of its bytes. 0 and empty: there was none."""

    commit: int = 0
    hash: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Predecessor:
    """A low-level backup that was there when another one began. `word`: that of its own `started` entry, by which it is
    the same in a copy of the repository; `last`: what lay in its place then."""

    backup: str
    word: str
    last: LastCommit = LastCommit()


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Behind what a low-level backup begins. `last`: what lay in its place already; `predecessors`: all low-level
    backups of the resource that were there, in whatever repository. So the order of backups is a matter of record."""

    last: LastCommit = LastCommit()
    predecessors: tuple[Predecessor, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """What a person let go: the backup as it ends with commit `last`, for a `reason`."""

    last: LastCommit
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry. `generation`: of the resource, by which it was decided; `fence`: the term of the lock of whoever did;
    `word` is random; `at_ms`: the store's time; `number`: of the low-level backup, from 1 on; `by`: for people.
    `origin`: of one that begins; entries of earlier versions have none. `topics` and `exclude`: what is chosen from now
    on, where that changes: no topics, no change. `member`: whose word it is, where resources share the backup."""

    seq: int
    previous: str
    kind: Kind
    generation: int
    fence: int
    word: str
    at_ms: int
    number: int
    by: str = ""
    beginning: Beginning | None = None
    settings: Settings | None = None
    origin: Origin | None = None
    release: Release | None = None
    topics: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    member: Membership | None = None


def encode_entry(entry: Entry) -> bytes:
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
    if (begun := entry.beginning) is not None:
        fields["beginning"] = {
            "backup": begun.backup,
            "path": begun.path,
            "tag": begun.tag,
            "cluster": begun.cluster,
            "topics": list(begun.topics),
            "exclude": list(begun.exclude),
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
                {"backup": each.backup, "word": each.word, "last": _last_fields(each.last)}
                for each in entry.origin.predecessors
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


def decode_entry(data: bytes, *, key: str) -> Entry:
    """The entry in `data`, which lies at `key`. Raises `DamagedObject`, `FormatTooNew`, `BadName`."""
    item = parse_json_object(data, source=key, damaged=DamagedObject)
    begun, settings = item.optional_child("beginning"), item.optional_child("settings")
    origin, release = item.optional_child("origin"), item.optional_child("release")
    chosen, member = item.optional_child("chosen"), item.optional_child("member")
    return Entry(
        seq=item.count("seq"),
        previous=item.text("previous"),
        kind=item.member("kind", Kind),
        generation=item.count("generation"),
        fence=item.count("fence"),
        word=item.text("word"),
        at_ms=item.integer("at_ms", least=0, most=MAX_COMMIT_TIME_MS),
        number=item.count("number"),
        by=item.text("by"),
        beginning=None if begun is None else _beginning(begun),
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
    """That a name is of the resource with that uid."""
    return encode_object({"format": FORMAT, "uid": uid})


def decode_owner(data: bytes, *, key: str) -> str:
    """The uid. Raises `DamagedObject`, `FormatTooNew`."""
    return parse_json_object(data, source=key, damaged=DamagedObject).text("uid")


def settings_of(snapshot_duration: str, parameters: Mapping[str, str]) -> Settings:
    return Settings(snapshot_duration=snapshot_duration, parameters=tuple(sorted(parameters.items())))


def _member(item: JsonObject) -> Membership:
    return Membership(
        id=_member_id(item.text("id")),
        name=printable(item.text("name")[:NAME_MAX]),
        generation=item.count("generation"),
        fields=item.text_map("fields"),
        proof=item.text("proof"),
        reason=item.text("reason")[:REASON_MAX],
    )


def _member_id(text: str) -> str:
    """What nobody but a stranger writes is named by its hash: people type ids, so none may be empty, begin another one,
    or hold what no keyboard has."""
    return text if _MEMBER_ID.fullmatch(text) else hashlib.sha256(text.encode()).hexdigest()[:32]


def _beginning(item: JsonObject) -> Beginning:
    if not item.texts("topics"):
        raise item.wrong("topics", "a list with a pattern of topics")
    return Beginning(
        backup=check_backup_name(item.text("backup")),
        path=item.text("path"),
        tag=item.text("tag"),
        cluster=item.text("cluster"),
        topics=patterns_of(item, "topics"),
        exclude=patterns_of(item, "exclude"),
    )


def _settings(item: JsonObject) -> Settings:
    return Settings(snapshot_duration=item.text("snapshot_duration"), parameters=item.text_map("parameters"))


def _origin(item: JsonObject) -> Origin:
    predecessors = (
        Predecessor(
            backup=check_backup_name(child.text("backup")), word=child.text("word"), last=_last(child.child("last"))
        )
        for child in item.children("predecessors")
    )
    return Origin(last=_last(item.child("last")), predecessors=tuple(predecessors))


def _last_fields(last: LastCommit) -> dict[str, JsonValue]:
    return {"commit": last.commit, "hash": last.hash}


def _last(item: JsonObject) -> LastCommit:
    return LastCommit(commit=item.count("commit"), hash=item.text("hash"))
