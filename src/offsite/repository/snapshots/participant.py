"""The declaration of an external participant when a checkpoint was taken: stored with the checkpoint, and with the cut
compared with it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from offsite.model.named import named
from offsite.model.untrusted.json_object import JsonObject, JsonValue

_NAMED_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredPosition:
    """The saved state has read one partition up to offset `end` (exclusive)."""

    topic: str
    partition: int
    end: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition} up to {self.end}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointParticipant:
    """A participant of a checkpoint, with its state saved. Without `positions` the participant reads no topic of the
    cluster. With `can_replay` the participant continues from its positions after a restore; otherwise it must stand at
    the cut's ends."""

    name: str
    can_replay: bool = False
    positions: tuple[DeclaredPosition, ...] = ()

    @property
    def described(self) -> str:
        """What a person should know about the participant before a restore."""
        if not self.positions:
            return f"{self.name}: a state of its own, which reads none of these topics"
        rest = "reads the rest again" if self.can_replay else "must be restored with the cut that ends there"
        return f"{self.name}: had read {named(list(map(str, self.positions)), most=_NAMED_MAX)} and {rest}"


def participants_to_json(participants: Iterable[CheckpointParticipant]) -> dict[str, JsonValue]:
    """The JSON field for the participants; no field without participants, as before participants existed."""
    found: list[JsonValue] = [
        {
            "name": each.name,
            "can_replay": each.can_replay,
            "positions": [{"topic": at.topic, "partition": at.partition, "end": at.end} for at in each.positions],
        }
        for each in participants
    ]
    return {_FIELD: found} if found else {}


def participants_from_json(item: JsonObject) -> tuple[CheckpointParticipant, ...]:
    """Raises errors of `document` for fields that differ from their stored form."""
    if _FIELD not in item.fields:
        return ()
    return tuple(
        CheckpointParticipant(
            name=each.text("name"), can_replay=each.flag("can_replay"), positions=tuple(_positions(each))
        )
        for each in item.children(_FIELD)
    )


_FIELD = "participants"


def _positions(item: JsonObject) -> Iterable[DeclaredPosition]:
    for each in item.children("positions"):
        yield DeclaredPosition(topic=each.topic(), partition=each.partition(), end=each.count("end"))
