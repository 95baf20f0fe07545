"""The memory of the local machine, beside the remembered heads (see `heads`): what it wrote, and what it saw first.

Whoever may create objects in a repository can forge objects like ours, and a repository claims whatever its last writer
wanted. So three facts are kept here, each a file: several processes add facts at once, and none removes another's. Own
writes: a hash of every name with its bytes, noted before the write; records of a restore, which act with the
credentials of a cluster, count only if written here. Commits that let restore points or records go: local ones, the
first sight of foreign ones, and the last look. Releases of a whole backup, the word of a ledger (decision 0046): one
counts at once on the machine of its origin, elsewhere some days after its first sight, and never once refused here.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from offsite.model.errors import DamagedObject, OffsiteError, RestoreRefused
from offsite.model.ids import random_id
from offsite.model.journal import noted
from offsite.model.units import format_time
from offsite.model.untrusted.json_codec import Count, JsonCodec
from offsite.model.untrusted.json_object import JsonObject, JsonValue
from offsite.repository.backup import Backup
from offsite.repository.heads import memory_folder
from offsite.repository.json_form import FORMAT, encode_object, parse_json_object
from offsite.repository.leftovers import LEFTOVER_AFTER_MS
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.restores.record import count_targets
from offsite.repository.restores.topic_settings import newest_aside_key
from offsite.repository.state import BackupState
from offsite.stores.numbered_log import LedgerEntryInfo
from offsite.stores.store import Store

NO_RULE = ""
_LOOKED = "looked"
RELEASE_AFTER_MS = 3 * LEFTOVER_AFTER_MS
"""How long a machine has known of a foreign release before it counts: somebody looks meanwhile."""
_BY_MAX = 100
"""Characters shown of a name: every party that may create objects can choose the name."""


def note_written(store: Store, key: str, data: bytes) -> None:
    """Note that the local installation writes `data` under `key`. To be called before the write, so that no crash lies
    between."""
    try:
        path = _path(store, key, data)
        for folder in reversed(path.parents[:3]):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.touch(mode=0o600)
    except (OSError, RuntimeError) as error:
        noted("no_memory", what="what was written", why=error)


def is_written_here(store: Store, key: str) -> bool:
    """Whether the object under `key`, if any, is the object that the local installation wrote. Raises the errors of the
    store."""
    data = store.get(key)
    try:
        return data is not None and _path(store, key, data).exists()
    except (OSError, RuntimeError) as error:
        noted("no_memory", what="what was written", why=error)
        return False


def is_begun_here(store: Store, layout: RestoreLayout) -> bool:
    """Whether the local installation began the restore, or a person moved the restore to the local installation."""
    return is_written_here(store, layout.record_key)


def adopt(store: Store, layout: RestoreLayout) -> None:
    """Adopt a restore for a person: its present records count from now on."""
    targets_key = layout.targets_key(max(count_targets(store, layout), 1))
    of_schemas = layout.import_modes_key, layout.schema_ids_key
    for key in (layout.record_key, targets_key, newest_aside_key(store, layout), *of_schemas):
        if (data := store.get(key)) is not None:
            note_written(store, key, data)


def check_own(store: Store, layout: RestoreLayout, key: str) -> None:
    """Raise `RestoreRefused` where `key` holds an object that the local installation did not write."""
    if not is_written_here(store, key):
        raise RestoreRefused(
            f"{key} controls restore {layout.restore}, but this installation did not write it",
            hint="check the object. If no installation of yours wrote it, delete it and run the same command again. "
            f"If another installation of yours wrote it, add --resume {layout.restore}",
        )


def _path(store: Store, key: str, data: bytes) -> Path:
    """The path of the note, equal for all names of a folder. Raises `RuntimeError` where there is no home."""
    place = os.path.realpath(store.url) if store.url.startswith("/") else store.url
    return memory_folder("written", place) / hashlib.sha256(key.encode() + b"\0" + data).hexdigest()[:32]


FactT = TypeVar("FactT")


@dataclass(frozen=True, slots=True, kw_only=True)
class LastLook:
    """What somebody saw: the newest commit with its hash, and the number of restore points."""

    commit: Count
    hash: str
    points: Count

    @classmethod
    def at(cls, state: BackupState) -> LastLook:
        return cls(commit=state.seq, hash=state.head_hash, points=len(state.history))


_LOOK = JsonCodec(LastLook)


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberedFacts:
    """The local machine's memory of `name` at a place, by `kind`: a file for every fact."""

    kind: str
    place: str
    name: str

    def get(self, fact: str) -> JsonObject | None:
        """A fact; None where not remembered, or unreadable."""
        try:
            path = self.folder() / fact
            return parse_json_object(path.read_bytes(), source=str(path), damaged=DamagedObject)
        except FileNotFoundError:
            return None
        except (OSError, RuntimeError, OffsiteError) as error:
            _no_memory(error)
            return None

    def recall(self, fact: str, read: Callable[[JsonObject], FactT]) -> FactT | None:
        """The fact decoded by `read`; None also where decoding fails."""
        document = self.get(fact)
        try:
            return None if document is None else read(document)
        except OffsiteError as error:
            _no_memory(error)
            return None

    def put(self, fact: str, fields: dict[str, JsonValue]) -> None:
        """Remember a fact, where possible."""
        try:
            path = self.folder() / fact
            for folder in reversed((path.parent, *path.parent.parents[:3])):
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            fresh = path.with_name(f".{fact}.{random_id()}")
            fresh.touch(mode=0o600)
            fresh.write_bytes(encode_object({"format": FORMAT, **fields}))
            fresh.replace(path)
        except (OSError, RuntimeError) as error:
            _no_memory(error)

    def drop(self, is_dropped: Callable[[str], bool]) -> None:
        """Forget the facts whose names `is_dropped` says."""
        try:
            for path in self.folder().iterdir():
                if is_dropped(path.name):
                    path.unlink(missing_ok=True)
        except FileNotFoundError:
            return
        except (OSError, RuntimeError) as error:
            _no_memory(error)

    def first_seen_ms(self, fact: str, *, now_ms: int) -> int | None:
        """When the fact was first asked for, by the store's clock: `now_ms` if never before. None: nothing can be
        remembered here."""
        if self.get(fact) is None:
            self.put(fact, {"at_ms": now_ms})
        document = self.get(fact)
        return None if document is None else document.integer("at_ms")

    def folder(self) -> Path:
        """The folder. Raises `RuntimeError` where there is no home."""
        return memory_folder(self.kind, self.place) / self.name


def facts_of(backup: Backup, kind: str) -> RememberedFacts:
    """The local machine's memory of a backup at its place, by `kind`."""
    described = backup.descriptor
    place = f"{described.cluster_id} {described.created_at_ms} {backup.store.url}"
    return RememberedFacts(kind=kind, place=place, name=described.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class LetGoMemory:
    """The memory of a backup at a place."""

    backup: Backup

    def note_made(self, state: BackupState, rule: str = NO_RULE) -> None:
        """Note that a command of the local machine made the newest commit of `state`, by the `rule` of a policy, or for
        a person or the upkeep of the backup."""
        self._facts.put(_name(state.seq, state.head_hash, "made"), {"rule": rule, "points": len(state.history)})

    def rule_of(self, seq: int, commit_hash: str, *, points: int) -> str | None:
        """The rule by which a local command made a commit with `points` restore points left; None: no such command, a
        different number of points (a catalog contradicting the commits), or forgotten."""
        document = self._facts.get(_name(seq, commit_hash, "made"))
        is_same = document is not None and document.integer_or("points", points) == points
        return document.optional_text("rule") if document is not None and is_same else None

    def seen_ms(self, seq: int, commit_hash: str, *, now_ms: int) -> int | None:
        """When the local machine first saw a commit, by the store's clock: `now_ms` if never before. None: nothing can
        be remembered here."""
        return self._facts.first_seen_ms(_name(seq, commit_hash, "seen"), now_ms=now_ms)

    def forget(self, *, upto: int, but: Collection[int]) -> None:
        """Forget commits up to `upto`, except the commits in `but`."""

        def is_done(fact: str) -> bool:
            number = fact.partition("-")[0]
            return number.isdecimal() and int(number) <= upto and int(number) not in but

        self._facts.drop(is_done)

    def note_looked(self, look: LastLook) -> None:
        """Note that somebody looked at the backup."""
        self._facts.put(_LOOKED, _LOOK.write(look))

    def last_look(self) -> LastLook | None:
        """The note of the last look."""
        document = self._facts.get(_LOOKED)
        return None if document is None else _LOOK.read(document)

    @property
    def _facts(self) -> RememberedFacts:
        return facts_of(self.backup, "let-go")


def _name(seq: int, commit_hash: str, kind: str) -> str:
    return f"{seq:020}-{commit_hash[:16]}.{kind}"


def _no_memory(error: Exception) -> None:
    noted("no_memory", what="what lets something go", why=error)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseMemory:
    """The local machine's memory of the releases in the ledger below `prefix`. A hash names an entry wherever it lies:
    an operator and a person may write the URL of a store in two ways."""

    store: Store
    prefix: str

    def note_given(self, word: LedgerEntryInfo) -> None:
        """Note that a person gave the release here, or here as well."""
        self._facts.put(_release_name(word, "given"), {"given": True})

    def note_refused(self, word: LedgerEntryInfo) -> None:
        """Note that a person refused the release here, unless it was given here."""
        self._facts.put(_release_name(word, "given"), {"given": False})

    def doubt(self, word: LedgerEntryInfo) -> str:
        """Why the release does not count here, or not yet; empty if it counts. Raises the errors of the store."""
        who = f"the release of {format_time(word.at_ms)}, in the name of {word.by[:_BY_MAX] or 'nobody'},"
        if (answer := self._facts.get(_release_name(word, "given"))) is not None:
            return "" if answer.flag("given") else f"{who} was refused on this machine"
        now_ms = self.store.now_ms()
        seen_ms = self._facts.first_seen_ms(_release_name(word, "seen"), now_ms=now_ms)
        if seen_ms is None:
            return (
                f"{who} does not count: it was not given on this machine, and this machine cannot store when it first "
                "saw the release. Set XDG_STATE_HOME to a folder, or give the release on this machine too"
            )
        if now_ms - seen_ms >= RELEASE_AFTER_MS:
            return ""
        return (
            f"{who} was not given on this machine: it counts here from {format_time(seen_ms + RELEASE_AFTER_MS)}, or "
            "as soon as you give it here too; if it is wrong, refuse it here (release --refuse)"
        )

    @property
    def _facts(self) -> RememberedFacts:
        return RememberedFacts(kind="releases", place=self.prefix, name=self.prefix.strip("/").replace("/", "."))


def _release_name(word: LedgerEntryInfo, kind: str) -> str:
    return f"{word.hash[:32]}.{kind}"
