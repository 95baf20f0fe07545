"""What the stream processor is for: deployments that every partition gets, and messages that find an instance.

Pure. `process` turns a command into one event and changes nothing; `apply` is the only one that changes the state, and
does the same on the leader, at its successor that replays, and after a restore. What other partitions have to know is
put into `State.outstanding` by the event, and stays there until they have acknowledged it: so messages may be lost,
doubled and overtaken.

    deployment:create    on partition 1 -> gets a version -> deployment:distribute to all others
    instance:create      on any         -> subscription:open to the partition of its key
    message:publish      by its key     -> to the instance that has waited longest: instance:correlate to its home
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from zlib import crc32

from examples.stream_processor.records import IGNORED, Body, Message, Record
from examples.stream_processor.state import Instance, State

DEPLOYMENTS_ON = 1
ACKNOWLEDGE = "acknowledge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """The `number` of this partition, from 1, of so many `partitions`."""

    number: int
    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    kind: str
    body: Body


def partition_of(key: str, partitions: int) -> int:
    return crc32(key.encode()) % partitions + 1


def process(state: State, here: Here, command: Record) -> Event:
    """The event that `command` leads to. A command that is not known, or was carried out already, is ignored."""
    decide = _DECISIONS.get(command.kind)
    event = decide(state, here, command.body) if decide else None
    return event or Event(kind=IGNORED, body={"command": command.kind})


def reply(command: Record) -> Message | None:
    """What tells the sender of a `command` that it need not be sent again, also if it was ignored as a repetition."""
    if not command.body.get("sender"):
        return None
    return Message(to=command.body["sender"], kind=ACKNOWLEDGE, body={"name": command.body["name"]})


def apply(state: State, here: Here, kind: str, body: Body) -> None:
    """Take the event into the `state`."""
    if change := _CHANGES.get(kind):
        change(state, body)
        for message in _messages(here, kind, body):
            state.outstanding[message.name] = message


def _create_deployment(state: State, _here: Here, body: Body) -> Event | None:
    if body["deployment"] in state.deployments.values():
        return None
    version = len(state.deployments) + 1
    return Event(kind="deployment:created", body={"version": version, "deployment": body["deployment"]})


def _distribute_deployment(state: State, _here: Here, body: Body) -> Event | None:
    if str(body["version"]) in state.deployments:
        return None
    return Event(kind="deployment:distributed", body={each: body[each] for each in ("version", "deployment")})


def _create_instance(state: State, _here: Here, body: Body) -> Event | None:
    if body["instance"] in state.instances:
        return None
    return Event(kind="instance:created", body={each: body[each] for each in ("instance", "key")})


def _open_subscription(state: State, _here: Here, body: Body) -> Event | None:
    if body["instance"] in state.opened:
        return None
    message = next(iter(state.buffered.get(body["key"], ())), "")
    opened = {"instance": body["instance"], "key": body["key"], "home": body["sender"], "message": message}
    return Event(kind="subscription:opened", body=opened)


def _publish_message(state: State, _here: Here, body: Body) -> Event | None:
    if body["message"] in state.published:
        return None
    instance = next(iter(state.waiting.get(body["key"], ())), "")
    home = state.opened.get(instance, 0)
    published = {"message": body["message"], "key": body["key"], "instance": instance, "home": home}
    return Event(kind="message:published", body=published)


def _correlate_instance(state: State, _here: Here, body: Body) -> Event | None:
    instance = state.instances.get(body["instance"])
    if instance is None or instance.messages:
        return None
    return Event(kind="instance:correlated", body={each: body[each] for each in ("instance", "message")})


def _acknowledge(state: State, _here: Here, body: Body) -> Event | None:
    return Event(kind="acknowledged", body={"name": body["name"]}) if body["name"] in state.outstanding else None


def _deployed(state: State, body: Body) -> None:
    state.deployments[str(body["version"])] = body["deployment"]


def _instance_created(state: State, body: Body) -> None:
    state.instances[body["instance"]] = Instance(key=body["key"])


def _subscription_opened(state: State, body: Body) -> None:
    state.opened[body["instance"]] = body["home"]
    if body["message"]:
        state.buffered[body["key"]].remove(body["message"])
    else:
        state.waiting.setdefault(body["key"], []).append(body["instance"])


def _message_published(state: State, body: Body) -> None:
    state.published[body["message"]] = body["key"]
    if body["instance"]:
        state.waiting[body["key"]].remove(body["instance"])
    else:
        state.buffered.setdefault(body["key"], []).append(body["message"])


def _correlated(state: State, body: Body) -> None:
    state.instances[body["instance"]].messages.append(body["message"])


def _acknowledged(state: State, body: Body) -> None:
    del state.outstanding[body["name"]]


def _messages(here: Here, kind: str, body: Body) -> Iterator[Message]:
    """What other partitions, or this one itself, have to be told of the event."""
    if kind == "deployment:created":
        for other in range(1, here.partitions + 1):
            if other != here.number:
                name = f"deployment/{body['version']}/{other}"
                yield Message(to=other, kind="deployment:distribute", body=body, sender=here.number, name=name)
    elif kind == "instance:created":
        to, name = partition_of(body["key"], here.partitions), f"subscription/{body['instance']}"
        yield Message(to=to, kind="subscription:open", body=body, sender=here.number, name=name)
    elif body.get("message") and body.get("home"):
        name, found = f"message/{body['message']}", {each: body[each] for each in ("instance", "message")}
        yield Message(to=body["home"], kind="instance:correlate", body=found, sender=here.number, name=name)


_DECISIONS = {
    "deployment:create": _create_deployment,
    "deployment:distribute": _distribute_deployment,
    "instance:create": _create_instance,
    "subscription:open": _open_subscription,
    "message:publish": _publish_message,
    "instance:correlate": _correlate_instance,
    ACKNOWLEDGE: _acknowledge,
}
_CHANGES = {
    "deployment:created": _deployed,
    "deployment:distributed": _deployed,
    "instance:created": _instance_created,
    "subscription:opened": _subscription_opened,
    "message:published": _message_published,
    "instance:correlated": _correlated,
    "acknowledged": _acknowledged,
}
