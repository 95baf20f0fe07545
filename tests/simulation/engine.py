"""What the simulated processor does: deployments go to all partitions, and messages to the instances that wait.

As in ZEP008. Partition 1 deploys, and distributes. An instance lives on the partition of its number, a message on that
of its name, and there the instance subscribes; what matches there is correlated on the instance's partition. What is
sent to another partition stays in `State.outbox`, and is sent again and again, until that one has settled it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from offsite_participant.bcs import Created, Progress


class Command(NamedTuple):
    """`subject` is what it is about: a version, an instance, or a message. `origin`: the partition that sent it, 0 for
    a client. `settles`: what need not be sent any more."""

    kind: str
    subject: int = 0
    name: int = 0
    instance: int = 0
    origin: int = 0
    settles: tuple[int, Command] | None = None


Sent = tuple[int, Command]
"""The partition that a command goes to, and the command."""


class Done(NamedTuple):
    """The command at position `source` was processed."""

    source: int


_NO_CHECKPOINT = Progress()


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What follows from a log up to the command at `processed`. `instances`, `messages` and `subscriptions` have the
    number and the name of each; `correlated`, pairs of instance and message. `created`: the newest checkpoints, of
    which a later leader may have to tell that nobody copies them."""

    processed: int = -1
    progress: Progress = _NO_CHECKPOINT
    created: tuple[Created, ...] = ()
    versions: frozenset[int] = frozenset()
    instances: frozenset[tuple[int, int]] = frozenset()
    messages: frozenset[tuple[int, int]] = frozenset()
    subscriptions: frozenset[tuple[int, int]] = frozenset()
    correlated: tuple[tuple[int, int], ...] = ()
    outbox: frozenset[Sent] = frozenset()


def home_of_instance(instance: int, partitions: int) -> int:
    return instance % partitions + 1


def home_of_name(name: int, partitions: int) -> int:
    return name % partitions + 1


def apply(state: State, command: Command, *, here: int, partitions: int) -> State:  # noqa: PLR0911  # one for each kind
    """The state after `command`. The same command once more does no harm."""
    subject, name = command.subject, command.name
    match command.kind:
        case "deploy":
            wanted = frozenset(
                (each, Command("distribute", subject, origin=here)) for each in range(1, partitions + 1) if each != here
            )
            return replace(state, versions=state.versions | {subject}, outbox=state.outbox | wanted)
        case "distribute":
            return replace(state, versions=state.versions | {subject})
        case "start":
            wait = (home_of_name(name, partitions), Command("subscribe", subject, name, origin=here))
            return replace(state, instances=state.instances | {(subject, name)}, outbox=state.outbox | {wait})
        case "subscribe" if (subject, name) not in state.subscriptions:
            found = _correlations(((subject, each) for each, of in state.messages if of == name), here, partitions)
            return replace(
                state, subscriptions=state.subscriptions | {(subject, name)}, outbox=state.outbox | frozenset(found)
            )
        case "publish":
            found = _correlations(((each, subject) for each, of in state.subscriptions if of == name), here, partitions)
            return replace(state, messages=state.messages | {(subject, name)}, outbox=state.outbox | frozenset(found))
        case "correlate" if (command.instance, subject) not in state.correlated:
            return replace(state, correlated=(*state.correlated, (command.instance, subject)))
        case "settled":
            return replace(state, outbox=state.outbox - {command.settles})
    return state


def answer_to(command: Command, *, here: int) -> Sent | None:
    """What tells the sender of a command that it was processed."""
    if not command.origin or command.kind == "settled":
        return None
    return command.origin, Command("settled", origin=here, settles=(here, command))


def _correlations(pairs: object, here: int, partitions: int) -> list[Sent]:
    return [
        (home_of_instance(instance, partitions), Command("correlate", message, instance=instance, origin=here))
        for instance, message in pairs  # type: ignore[attr-defined]
    ]
