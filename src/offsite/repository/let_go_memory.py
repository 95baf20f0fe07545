"""The local memory of commits that let restore points or records go: commits of local commands, the first sight of
foreign commits, and the commit of the last look.

A repository claims whatever its last writer wanted. The memory is a file for every fact, beside the remembered heads
(see `heads`): several processes add facts at once, and none removes another's. Releases are remembered in the same way
(see `releases`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from offsite.model.errors import DamagedObject, OffsiteError
from offsite.model.ids import random_id
from offsite.model.journal import noted
from offsite.model.untrusted.json_object import JsonObject, JsonValue
from offsite.repository.backup import Backup
from offsite.repository.heads import memory_folder
from offsite.repository.json_form import FORMAT, encode_object, parse_json_object
from offsite.repository.state import BackupState

NO_RULE = ""
_LOOKED = "looked"

FactT = TypeVar("FactT")


@dataclass(frozen=True, slots=True, kw_only=True)
class LastLook:
    """What somebody saw: the newest commit with its hash, and the number of restore points."""

    commit: int
    hash: str
    points: int

    @classmethod
    def at(cls, state: BackupState) -> LastLook:
        return cls(commit=state.seq, hash=state.head_hash, points=len(state.history))


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
        self._facts.put(_LOOKED, {"commit": look.commit, "hash": look.hash, "points": look.points})

    def last_look(self) -> LastLook | None:
        """The note of the last look."""
        document = self._facts.get(_LOOKED)
        if document is None:
            return None
        return LastLook(commit=document.count("commit"), hash=document.text("hash"), points=document.count("points"))

    @property
    def _facts(self) -> RememberedFacts:
        return facts_of(self.backup, "let-go")


def _name(seq: int, commit_hash: str, kind: str) -> str:
    return f"{seq:020}-{commit_hash[:16]}.{kind}"


def _no_memory(error: Exception) -> None:
    noted("no_memory", what="what lets something go", why=error)
