"""The ledger of a set of generations, and the keys of the set, which are built and parsed only here. The number of the
next entry fences deciders: see `numbered_log`.

Beside the ledger lies why a generation stays, as noted by the comparing instance: a hint for display, overwritten every
time, never trusted, without influence on decisions.

generations/<set>/ledger/<seq:020>.json     decisions on its generations, create-only
generations/<set>/kept.json                 why the previous generation stays (overwritten, never trusted)
generations/<set>/audit/<seq:020>-<attempt>.jsonl
                                            deletions, noted when entry `seq` was the newest
backups/<set>.gen-<n>/...                   generation n, where generations are backups
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from offsite.model.errors import BadName, OffsiteError
from offsite.model.journal import noted
from offsite.model.names import check_backup_name
from offsite.model.untrusted.json_codec import Count, Form
from offsite.repository.generation_sets.entry import GENERATION_ENTRY, GenerationEntry
from offsite.repository.generation_sets.generation_set import Generation, GenerationPhase, GenerationSet, apply_entry
from offsite.repository.json_form import StoredForm
from offsite.repository.layout import BackupLayout, folders_below, own_objects
from offsite.stores.numbered_log import Ledger, LedgerForm
from offsite.stores.store import Store

SETS_PREFIX = "generations/"

_ENTRY = re.compile(r"generations/[^/]+/ledger/(\d{20})\.json", re.ASCII)
_BACKUP = re.compile(r"(?P<set>.+)\.gen-(?P<number>[1-9]\d{0,8})", re.ASCII)
_FORM = LedgerForm(encode=GENERATION_ENTRY.encode, decode=GENERATION_ENTRY.decode, apply=apply_entry)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetLayout:
    """The keys of a set of generations. Raises `BadName` for a name that could leave its place, or has no room for the
    number of a generation."""

    name: str

    def __post_init__(self) -> None:
        check_backup_name(self.name)
        check_backup_name(self.backup_name(999_999_999))

    @property
    def ledger_prefix(self) -> str:
        return f"{SETS_PREFIX}{self.name}/ledger/"

    @property
    def audit_prefix(self) -> str:
        return f"{SETS_PREFIX}{self.name}/audit/"

    def audit_key(self, seq: int, attempt: str) -> str:
        return f"{self.audit_prefix}{seq:020d}-{attempt}.jsonl"

    @property
    def kept_key(self) -> str:
        return f"{SETS_PREFIX}{self.name}/kept.json"

    def backup_name(self, generation: int) -> str:
        """The name of the backup of the generation."""
        return f"{self.name}.gen-{generation}"

    def backup(self, generation: int) -> BackupLayout:
        return BackupLayout(backup=self.backup_name(generation))


def parse_entry_key(key: str) -> int | None:
    """The entry number in `key`; None for a foreign key."""
    match = _ENTRY.fullmatch(key)
    return None if match is None else int(match[1])


def set_of_backup(name: str) -> tuple[str, int] | None:
    """The set and the generation number that a backup of the name may have; None if impossible."""
    match = _BACKUP.fullmatch(name)
    return None if match is None else (match["set"], int(match["number"]))


SetLedger: TypeAlias = Ledger[GenerationEntry, GenerationSet]


def set_ledger(store: Store, name: str) -> SetLedger:
    """The ledger of a set. Raises `BadName`."""
    prefix = SetLayout(name=name).ledger_prefix
    return Ledger(store=store, prefix=prefix, form=_FORM, first=GenerationSet(name=name), is_long=True)


def set_names(store: Store) -> tuple[str, ...]:
    """The names of the sets of a repository, sorted, without foreign files."""
    return tuple(sorted(name for name in folders_below(store, SETS_PREFIX) if _is_set(store, name)))


def _is_set(store: Store, name: str) -> bool:
    try:
        layout = SetLayout(name=name)
    except BadName:
        return False
    return any(parse_entry_key(info.key) is not None for info in own_objects(store.list(layout.ledger_prefix)))


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptGeneration:
    """Generation `generation` stays because `successor` lacks something: `why`; empty where it lacks nothing.
    `release`: the hash of an existing release that does not count yet."""

    generation: Count
    successor: Count
    why: str
    release: Annotated[str, Form(lambda document, name: document.optional_text(name) or "")] = ""

    def stays(self, generation: Generation) -> bool:
        """Whether the hint still holds, as far as known: no later release exists."""
        is_same = generation.released is None or generation.released.hash == self.release
        return self.generation == generation.number and bool(self.why) and is_same


_KEPT = StoredForm(KeptGeneration)


def put_kept(store: Store, layout: SetLayout, kept_generation: KeptGeneration) -> None:
    """Leave a hint. Nothing depends on the hint, so an error fails nothing."""
    try:
        store.put_overwrite(layout.kept_key, _KEPT.encode(kept_generation))
    except OffsiteError as error:
        noted("no_note", what="why a generation stays", why=error.message)


def get_kept(store: Store, layout: SetLayout) -> KeptGeneration | None:
    """Read the hint; None where none exists or it is unreadable."""
    try:
        data = store.get(layout.kept_key)
        return None if data is None else _KEPT.decode(data, key=layout.kept_key)
    except OffsiteError as error:
        noted("hint_unusable", what=layout.kept_key, why=error.message)
        return None


def why_kept(store: Store, layout: SetLayout, *, successor: int) -> str:
    """Records of the predecessor missing in generation `successor`, for which the predecessor stays; empty where
    nothing is missing, where the predecessor is gone, or where the difference was accepted. Raises `DamagedObject`."""
    kept_generation = get_kept(store, layout)
    if kept_generation is None or not kept_generation.why or kept_generation.successor != successor:
        return ""
    generation = set_ledger(store, layout.name).read().generation(kept_generation.generation)
    if (
        generation is None
        or not kept_generation.stays(generation)
        or generation.phase in {GenerationPhase.REMOVING, GenerationPhase.REMOVED}
    ):
        return ""
    return f"{kept_generation.why}; generation {kept_generation.generation} stays"
