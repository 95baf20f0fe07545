"""What the messages in the coordination topic tell the instances of a set, and what a set's messages are. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from offsite.model.untrusted.names import is_topic_name
from offsite.repository.generations.entry import Instance
from offsite.repository.generations.generation_set import GenerationSet
from offsite.services.generations.decision import Send, Told
from offsite.services.generations.message import Event, Message, decode_message, message_key
from offsite.services.generations.target import Held

_SUFFIXES = {Instance.A: "activate", Instance.B: "passivate"}
"""As the tool wants its connectors to be called: the one that begins as the active one, and the other."""

MESSAGES_MAX = 200_000
"""Messages that are remembered: two for each number of a partition, and a stranger may have written any number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """The names by which the instances of a set are meant. `fallback` names a topic where a partition has no record."""

    name: str
    fallback: str = ""

    def connector(self, instance: Instance) -> str:
        return f"{self.name}-{_SUFFIXES[instance]}"

    def instance(self, message: Message) -> Instance | None:
        """Who of the set is meant, if any."""
        return next((each for each in Instance if self.connector(each) == message.connector), None)

    def messages(self, send: Send, held: Held) -> Iterator[Message]:
        """The messages of an effect: one for each number, naming the first topic that has such a partition: their keys
        name no topic, so one for each topic would take the other's place."""
        first = {partition: (topic, end) for (topic, _, partition), end in sorted(held.items(), reverse=True)}
        known = min((topic for topic, _, _ in held), default=self.name)
        name = self.fallback if is_topic_name(self.fallback) else known
        for partition in range(send.partitions):
            topic, end = first.get(partition, (name, 0))
            yield Message(
                event=send.event,
                connector=self.connector(send.to),
                topic=topic,
                partition=partition,
                offset=end,
                at_ms=send.at_ms,
            )


class Mailbox:
    """The newest message under each key of the set, of all records so far; what others wrote there is left out."""

    def __init__(self, addresses: Addresses) -> None:
        self._addresses = addresses
        self._prefixes = tuple(f"{addresses.connector(each)}-".encode() for each in Instance)
        self._found: dict[bytes, Message] = {}

    def take(self, key: bytes | None, value: bytes | None) -> None:
        """Take one record, the older first. A null value takes a message back, and so does what is none."""
        if key is None or not key.startswith(self._prefixes):
            return
        message = None if value is None else decode_message(key, value)
        if message is None or self._addresses.instance(message) is None:
            self._found.pop(key, None)
        elif key in self._found or len(self._found) < MESSAGES_MAX:
            self._found[key] = message

    def keys_to(self, instance: Instance) -> tuple[bytes, ...]:
        """The keys under which messages for the instance are."""
        return tuple(key for key, each in self._found.items() if self._addresses.instance(each) is instance)

    def told(self, state: GenerationSet) -> frozenset[Told]:
        """What is told, whole: under each number of a partition for which it is due. Of what the state does not ask for
        one message is enough: it is only taken back."""
        due = dict(_due(state))
        return frozenset(each for each in set(self._told()) if self._is_whole(due, each))

    def _told(self) -> Iterable[Told]:
        for message in self._found.values():
            if (to := self._addresses.instance(message)) is not None:
                yield Told(event=message.event, to=to, at_ms=message.at_ms)

    def _is_whole(self, due: Mapping[Told, int], told: Told) -> bool:
        connector = self._addresses.connector(told.to)
        found = (self._found.get(message_key(connector, number)) for number in range(due.get(told, 0)))
        return all(each is not None and (each.event, each.at_ms) == (told.event, told.at_ms) for each in found)


def _due(state: GenerationSet) -> Iterator[tuple[Told, int]]:
    """What the state asks for, and for how many numbers of partitions."""
    active = state.active_generation
    if active is None:
        return
    other = active.instance.other
    if state.asked_ms:
        yield Told(event=Event.ACTIVATE, to=other, at_ms=state.asked_ms), state.asked_partitions
    yield Told(event=Event.PASSIVATE, to=other, at_ms=active.complete_ms), active.switch_partitions
