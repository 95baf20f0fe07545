"""The declaration of an external participant when a checkpoint was taken: stored with the checkpoint, and with the cut
compared with it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from offsite.model.names import named
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
            return f"{self.name}: own state, reads none of these topics"
        behaviour = "reads the rest again" if self.can_replay else "must be restored with the cut that ends there"
        return f"{self.name}: had read {named(list(map(str, self.positions)), most=_NAMED_MAX)} and {behaviour}"


def participants_to_json(participants: Iterable[CheckpointParticipant]) -> dict[str, JsonValue]:
    """The JSON field for the participants; no field without participants, as before participants existed."""
    documents: list[JsonValue] = [
        {
            "name": participant.name,
            "can_replay": participant.can_replay,
            "positions": [
                {"topic": at.topic, "partition": at.partition, "end": at.end} for at in participant.positions
            ],
        }
        for participant in participants
    ]
    return {_FIELD: documents} if documents else {}


def participants_from_json(document: JsonObject) -> tuple[CheckpointParticipant, ...]:
    """Raises errors of `document` for fields that differ from their stored form."""
    if _FIELD not in document.fields:
        return ()
    return tuple(
        CheckpointParticipant(
            name=participant.text("name"),
            can_replay=participant.flag("can_replay"),
            positions=tuple(_positions(participant)),
        )
        for participant in document.children(_FIELD)
    )


_FIELD = "participants"


def _positions(document: JsonObject) -> Iterable[DeclaredPosition]:
    for position in document.children("positions"):
        yield DeclaredPosition(topic=position.topic(), partition=position.partition(), end=position.count("end"))
