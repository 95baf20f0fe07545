"""Why a generation stays, as noted by the comparing instance: a hint for display, overwritten every time, never
trusted, without influence on decisions."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from offsite.model.errors import DamagedObject, OffsiteError
from offsite.model.journal import noted
from offsite.repository.generation_sets.generation_set import Generation, GenerationPhase
from offsite.repository.generation_sets.layout import SetLayout
from offsite.repository.generation_sets.ledger import Ledger
from offsite.repository.json_form import FORMAT, encode_object, parse_json_object
from offsite.stores.store import Store


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
