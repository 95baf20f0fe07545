"""Reports of an instance about its actions, a line at a time."""

from __future__ import annotations

from dataclasses import dataclass

from offsite.generations.decision import AppendEntry, CopyGeneration, Effect, RemoveGeneration, Rest, Send
from offsite.generations.instance import CompletedEffect
from offsite.repository.generation_sets.entry import GenerationEntryKind

_WORDS = {
    GenerationEntryKind.JOINED: "this process runs the instance",
    GenerationEntryKind.BEGUN: "generation {} begins, from the first offset on",
    GenerationEntryKind.COMPLETED: "generation {} is complete",
    GenerationEntryKind.ASKED: "generation {} is old enough: the other instance may begin the next one",
    GenerationEntryKind.SWITCHED: "generation {} has reached the end, and is the active one",
    GenerationEntryKind.REMOVING: "generation {} is being removed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportLine:
    """A line. `active`: the number of the active generation; `restorable`: the number of the generation to restore
    from; 0: none yet. `lasts`: the line describes a lasting state, and its repetition is no news."""

    text: str
    set: str
    active: int
    restorable: int
    lasts: bool = False


def line_of(completed: CompletedEffect) -> ReportLine | None:
    """The line for a completed effect; None if not worth a line."""
    state, text = completed.state, _text(completed.effect)
    if text is None:
        return None
    newest = state.restorable
    return ReportLine(
        text=text,
        set=state.name,
        active=state.active,
        restorable=0 if newest is None else newest.number,
        lasts=isinstance(completed.effect, CopyGeneration | Rest),
    )


def _text(effect: Effect) -> str | None:
    match effect:
        case AppendEntry(kind=kind, generation=number):
            return _WORDS[kind].format(number) if kind in _WORDS else None
        case Send(event=event, to=to):
            return f"{event} is sent to instance {to}"
        case RemoveGeneration(generation=number):
            return f"generation {number} is removed"
        case CopyGeneration(generation=number, why=why):
            return f"generation {number} is read" + (f", and does not take over: {why}" if why else "")
        case Rest(why=why):
            return why
        case _:
            return None
