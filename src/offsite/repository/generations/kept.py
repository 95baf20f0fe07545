"""Why a generation stays, as the instance that compared it left word: a hint, overwritten each time and never trusted.
Nothing is decided by it, it is shown.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from offsite.model.errors import DamagedObject, OffsiteError
from offsite.model.journal import noted
from offsite.repository.generations.generation_set import Generation, Phase
from offsite.repository.generations.layout import SetLayout
from offsite.repository.generations.ledger import Ledger
from offsite.repository.json_form import FORMAT, encode_object, parse_json_object
from offsite.stores.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptGeneration:
    """Generation `generation` stays, because `successor` lacks something: `why`. Empty where it lacks nothing.
    `release`: the hash of the word by which it was to go all the same, and which does not count yet."""

    generation: int
    successor: int
    why: str
    release: str = ""

    def stays(self, generation: Generation) -> bool:
        """Whether that is still so, for all that is known: it was not released since."""
        is_same = generation.released is None or generation.released.hash == self.release
        return self.generation == generation.number and bool(self.why) and is_same


def put_kept(store: Store, layout: SetLayout, kept: KeptGeneration) -> None:
    """Leave word. Nothing depends on it, so nothing fails by it."""
    try:
        store.put_overwrite(layout.kept_key, encode_object({"format": FORMAT, **asdict(kept)}))
    except OffsiteError as error:
        noted("no_note", what="why a generation stays", why=error.message)


def get_kept(store: Store, layout: SetLayout) -> KeptGeneration | None:
    """What was left word of; None where nothing was, or it cannot be read."""
    try:
        if (data := store.get(layout.kept_key)) is None:
            return None
        item = parse_json_object(data, source=layout.kept_key, damaged=DamagedObject)
        return KeptGeneration(
            generation=item.count("generation"),
            successor=item.count("successor"),
            why=item.text("why"),
            release=item.optional_text("release") or "",
        )
    except OffsiteError as error:
        noted("hint_unusable", what=layout.kept_key, why=error.message)
        return None


def why_kept(store: Store, layout: SetLayout, *, successor: int) -> str:
    """What generation `successor` lacks of the one before it, which stays for that; empty where it lacks nothing, where
    the one before is gone, or nobody minds. Raises `DamagedObject`."""
    kept = get_kept(store, layout)
    if kept is None or not kept.why or kept.successor != successor:
        return ""
    found = Ledger(store=store, layout=layout).read().generation(kept.generation)
    if found is None or not kept.stays(found) or found.phase in {Phase.REMOVING, Phase.REMOVED}:
        return ""
    return f"{kept.why}; generation {kept.generation} stays"
