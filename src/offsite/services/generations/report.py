"""Reports of an instance about its actions, a line at a time."""

from __future__ import annotations

from dataclasses import dataclass

from offsite.repository.generations.entry import Kind
from offsite.services.generations.decision import Append, Copy, Effect, Remove, Rest, Send
from offsite.services.generations.instance import Happened

_WORDS = {
    Kind.JOINED: "this process runs the instance",
    Kind.BEGUN: "generation {} begins, from the first offset on",
    Kind.COMPLETED: "generation {} is complete",
    Kind.ASKED: "generation {} is old enough: the other instance may begin the next one",
    Kind.SWITCHED: "generation {} has reached the end, and is the active one",
    Kind.REMOVING: "generation {} is being removed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line. `active`: the number of the active generation; `restorable`: the number of the generation to restore
    from; 0: none yet. `lasts`: the line describes a lasting state, and its repetition is no news."""

    text: str
    set: str
    active: int
    restorable: int
    lasts: bool = False


def line_of(happened: Happened) -> Line | None:
    """The line for a completed effect; None if not worth a line."""
    state, text = happened.state, _text(happened.effect)
    if text is None:
        return None
    newest = state.restorable
    return Line(
        text=text,
        set=state.name,
        active=state.active,
        restorable=0 if newest is None else newest.number,
        lasts=isinstance(happened.effect, Copy | Rest),
    )


def _text(effect: Effect) -> str | None:
    match effect:
        case Append(kind=kind, generation=number):
            return _WORDS[kind].format(number) if kind in _WORDS else None
        case Send(event=event, to=to):
            return f"{event} is sent to instance {to}"
        case Remove(generation=number):
            return f"generation {number} is removed"
        case Copy(generation=number, why=why):
            return f"generation {number} is read" + (f", and does not take over: {why}" if why else "")
        case Rest(why=why):
            return why
        case _:
            return None
