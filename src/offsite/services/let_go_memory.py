"""What this machine remembers of commits that let restore points or records go: which ones its own commands made, since
when it has known the others, and which restore points there were when somebody last looked.

A repository says of itself whatever its last writer wanted. What this machine saw is a file for each fact, beside the
remembered heads (see `heads`): several processes add facts at once, and none takes another one's away.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from offsite.log.range import Span
from offsite.model.errors import DamagedObject, OffsiteError
from offsite.model.ids import random_id
from offsite.model.journal import noted
from offsite.model.untrusted.json_object import JsonObject, JsonValue
from offsite.repository.backup import Backup
from offsite.repository.json_form import FORMAT, encode_object, parse_json_object
from offsite.repository.state import BackupState
from offsite.services.heads import memory_folder

NO_RULE = ""
_LOOKED = "looked"
_RUNS_MAX = 50_000
"""Runs of restore points that are remembered: a backup with more has them by no rule of ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LetGoMemory:
    """The memory of one backup at one place."""

    backup: Backup

    def note_made(self, state: BackupState, rule: str = NO_RULE) -> None:
        """A command of this machine made the newest commit of `state`, by the `rule` of a policy, or because a person
        or the upkeep of the backup asked for it."""
        self._put(_name(state.seq, state.head_hash, "made"), {"rule": rule})

    def rule_of(self, seq: int, commit_hash: str) -> str | None:
        """The rule by which a command of this machine made a commit; None: it did not, or that is forgotten."""
        item = self._get(_name(seq, commit_hash, "made"))
        return None if item is None else item.optional_text("rule")

    def seen_ms(self, seq: int, commit_hash: str, *, now_ms: int) -> int | None:
        """When this machine first saw a commit, by the store's clock: `now_ms` if it never did. None: nothing can be
        remembered here."""
        name = _name(seq, commit_hash, "seen")
        if self._get(name) is None:
            self._put(name, {"at_ms": now_ms})
        item = self._get(name)
        return None if item is None else item.integer("at_ms")

    def forget(self, *, upto: int, but: Collection[int]) -> None:
        """Nobody asks for commits up to `upto` any more, `but` for some."""
        try:
            for path in self._folder().glob("*-*.*"):
                number = path.name.partition("-")[0]
                if number.isdecimal() and int(number) <= upto and int(number) not in but:
                    path.unlink(missing_ok=True)
        except (OSError, RuntimeError) as error:
            _no_memory(error)

    def note_looked(self, seq: int, runs: Sequence[Span]) -> None:
        """Somebody looked at the backup: commit `seq` was the newest, and `runs` were restore points."""
        if len(runs) <= _RUNS_MAX:
            self._put(_LOOKED, {"commit": seq, "runs": [list(each) for each in runs]})

    def looked(self) -> tuple[int, tuple[Span, ...]] | None:
        """What was noted when somebody last looked."""
        item = self._get(_LOOKED)
        if item is None:
            return None
        return item.count("commit"), tuple((row[0], row[1]) for row in item.integer_rows("runs", width=2))

    def _get(self, name: str) -> JsonObject | None:
        try:
            path = self._folder() / name
            return parse_json_object(path.read_bytes(), source=str(path), damaged=DamagedObject)
        except FileNotFoundError:
            return None
        except (OSError, RuntimeError, OffsiteError) as error:
            _no_memory(error)
            return None

    def _put(self, name: str, fields: dict[str, JsonValue]) -> None:
        try:
            path = self._folder() / name
            for folder in reversed((path.parent, *path.parent.parents[:3])):
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            fresh = path.with_name(f".{name}.{random_id()}")
            fresh.touch(mode=0o600)
            fresh.write_bytes(encode_object({"format": FORMAT, **fields}))
            fresh.replace(path)
        except (OSError, RuntimeError) as error:
            _no_memory(error)

    def _folder(self) -> Path:
        """Raises `RuntimeError` where there is no home."""
        described = self.backup.descriptor
        place = f"{described.cluster_id} {described.created_at_ms} {self.backup.store.url}"
        return memory_folder("let-go", place) / described.name


def _name(seq: int, commit_hash: str, kind: str) -> str:
    return f"{seq:020}-{commit_hash[:16]}.{kind}"


def _no_memory(error: Exception) -> None:
    noted("no_memory", what="commits that let something go", why=error)
