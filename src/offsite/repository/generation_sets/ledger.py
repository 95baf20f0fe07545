"""The ledger of a set of generations. The number of the next entry fences deciders: see `numbered_log`.

Beside it, why a generation stays, as noted by the comparing instance: a hint for display, overwritten every time, never
trusted, without influence on decisions.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass

from offsite.model.errors import BadName, DamagedObject, OffsiteError
from offsite.model.journal import noted
from offsite.repository.generation_sets.entry import (
    GenerationEntry,
    StoredEntry,
    decode_entry,
    encode_entry,
    entry_hash,
)
from offsite.repository.generation_sets.generation_set import (
    Generation,
    GenerationEntryNotAllowedError,
    GenerationPhase,
    GenerationSet,
    apply_entry,
)
from offsite.repository.generation_sets.layout import SETS_PREFIX, SetLayout, parse_entry_key
from offsite.repository.json_form import FORMAT, encode_object, parse_json_object
from offsite.repository.layout import folders_below, own_objects
from offsite.stores.numbered_log import HINT, NumberedLog
from offsite.stores.store import Store

_FEW, _READERS = 256, 16
"""From so many entries on, entries are read in parallel: that hides the latency of an object store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    store: Store
    layout: SetLayout

    def read(self, state: GenerationSet | None = None) -> GenerationSet:
        """The newest state, read on from `state`, or from the first entry. Raises `DamagedObject` for a missing,
        unreadable or forbidden entry; `FormatTooNew`."""
        return self._log.read(self._read_many() if state is None else state, is_first=state is None)

    def append(self, entry: GenerationEntry, *, to: GenerationSet) -> GenerationSet | None:
        """The state with `entry` behind `to`; None when another process was first: read on and decide again. Raises
        `GenerationEntryNotAllowedError` for a forbidden entry, and the errors of the store: after `PutOutcomeUnknown`,
        reading on tells the outcome."""
        data = encode_entry(entry)
        state = apply_entry(to, StoredEntry(entry=entry, hash=entry_hash(data)))
        return state if self._log.append(data, to=to) else None

    @property
    def _log(self) -> NumberedLog[GenerationSet]:
        return NumberedLog(store=self.store, prefix=self.layout.ledger_prefix, after=_after)

    def _read_many(self) -> GenerationSet:
        """Read the entries shown by a listing; a few are left to be read in sequence."""
        state = GenerationSet(name=self.layout.name)
        keys = [info.key for info in own_objects(self.store.list(self.layout.ledger_prefix))]
        if len(keys) <= _FEW:
            return state
        with ThreadPoolExecutor(max_workers=_READERS, thread_name_prefix="ledger") as pool:
            for key, data in zip(keys, pool.map(self.store.get, keys), strict=True):
                if data is None or key != self.layout.entry_key(state.seq + 1):
                    break  # reported with the following entries
                state = _after(state, data, key)
        return state


def _after(state: GenerationSet, data: bytes, key: str) -> GenerationSet:
    try:
        return apply_entry(state, decode_entry(data, key=key))
    except GenerationEntryNotAllowedError as error:
        raise DamagedObject(f"{key}: {error}", hint=HINT) from error


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

    generation: int
    successor: int
    why: str
    release: str = ""

    def stays(self, generation: Generation) -> bool:
        """Whether the hint still holds, as far as known: no later release exists."""
        is_same = generation.released is None or generation.released.hash == self.release
        return self.generation == generation.number and bool(self.why) and is_same


def put_kept(store: Store, layout: SetLayout, kept_generation: KeptGeneration) -> None:
    """Leave a hint. Nothing depends on the hint, so an error fails nothing."""
    try:
        store.put_overwrite(layout.kept_key, encode_object({"format": FORMAT, **asdict(kept_generation)}))
    except OffsiteError as error:
        noted("no_note", what="why a generation stays", why=error.message)


def get_kept(store: Store, layout: SetLayout) -> KeptGeneration | None:
    """Read the hint; None where none exists or it is unreadable."""
    try:
        if (data := store.get(layout.kept_key)) is None:
            return None
        document = parse_json_object(data, source=layout.kept_key, damaged=DamagedObject)
        return KeptGeneration(
            generation=document.count("generation"),
            successor=document.count("successor"),
            why=document.text("why"),
            release=document.optional_text("release") or "",
        )
    except OffsiteError as error:
        noted("hint_unusable", what=layout.kept_key, why=error.message)
        return None


def why_kept(store: Store, layout: SetLayout, *, successor: int) -> str:
    """Records of the predecessor missing in generation `successor`, for which the predecessor stays; empty where
    nothing is missing, where the predecessor is gone, or where the difference was accepted. Raises `DamagedObject`."""
    kept_generation = get_kept(store, layout)
    if kept_generation is None or not kept_generation.why or kept_generation.successor != successor:
        return ""
    generation = Ledger(store=store, layout=layout).read().generation(kept_generation.generation)
    if (
        generation is None
        or not kept_generation.stays(generation)
        or generation.phase in {GenerationPhase.REMOVING, GenerationPhase.REMOVED}
    ):
        return ""
    return f"{kept_generation.why}; generation {kept_generation.generation} stays"
