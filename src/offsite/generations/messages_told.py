"""Announcements in the coordination topic for the instances of a set, and the messages of an announcement. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from offsite.generations.decision import Announcement, Send
from offsite.generations.message import CoordinationMessage, Event, decode_message, message_key
from offsite.generations.target import GenerationEnds
from offsite.model.names import is_topic_name
from offsite.repository.generation_sets.entry import Instance
from offsite.repository.generation_sets.generation_set import GenerationSet

_SUFFIXES = {Instance.A: "activate", Instance.B: "passivate"}
"""Connector names as the tool wants them: first the instance that begins as the active one."""

MESSAGES_MAX = 200_000
"""Messages remembered at most: two for every partition number; a stranger may have written any number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """The names of the instances of a set. `fallback` names a topic where a partition has no record."""

    name: str
    fallback: str = ""

    def connector(self, instance: Instance) -> str:
        return f"{self.name}-{_SUFFIXES[instance]}"

    def instance(self, message: CoordinationMessage) -> Instance | None:
        """The addressed instance of the set, if any."""
        return next((instance for instance in Instance if self.connector(instance) == message.connector), None)

    def messages(self, send: Send, ends: GenerationEnds) -> Iterator[CoordinationMessage]:
        """The messages of an effect: a message for every partition number, with the first topic that has such a
        partition. Keys name no topic, so messages for several topics would overwrite each other."""
        first = {partition: (topic, end) for (topic, _, partition), end in sorted(ends.items(), reverse=True)}
        first_topic = min((topic for topic, _, _ in ends), default=self.name)
        name = self.fallback if is_topic_name(self.fallback) else first_topic
        for partition in range(send.partitions):
            topic, end = first.get(partition, (name, 0))
            yield CoordinationMessage(
                event=send.event,
                connector=self.connector(send.to),
                topic=topic,
                partition=partition,
                offset=end,
                at_ms=send.at_ms,
            )


class CoordinationMailbox:
    """The newest message under every key of the set, of all records so far, without foreign messages."""

    def __init__(self, addresses: Addresses) -> None:
        self._addresses = addresses
        self._prefixes = tuple(f"{addresses.connector(instance)}-".encode() for instance in Instance)
        self._messages: dict[bytes, CoordinationMessage] = {}

    def take(self, key: bytes | None, value: bytes | None) -> None:
        """Take a record, in order. A null value or an invalid message takes a message back."""
        if key is None or not key.startswith(self._prefixes):
            return
        message = None if value is None else decode_message(key, value)
        if message is None or self._addresses.instance(message) is None:
            self._messages.pop(key, None)
        elif key in self._messages or len(self._messages) < MESSAGES_MAX:
            self._messages[key] = message

    def keys_to(self, instance: Instance) -> tuple[bytes, ...]:
        """The keys of messages for the instance."""
        return tuple(key for key, message in self._messages.items() if self._addresses.instance(message) is instance)

    def announcements(self, state: GenerationSet) -> frozenset[Announcement]:
        """The complete announcements: with a message for every partition number that is due. An announcement that the
        state does not ask for needs a single message: it is only taken back."""
        due = dict(_due(state))
        return frozenset(
            announcement for announcement in set(self._all_announcements()) if self._is_whole(due, announcement)
        )

    def _all_announcements(self) -> Iterable[Announcement]:
        for message in self._messages.values():
            if (to := self._addresses.instance(message)) is not None:
                yield Announcement(event=message.event, to=to, at_ms=message.at_ms)

    def _is_whole(self, due: Mapping[Announcement, int], announcement: Announcement) -> bool:
        connector = self._addresses.connector(announcement.to)
        messages = (self._messages.get(message_key(connector, number)) for number in range(due.get(announcement, 0)))
        return all(
            message is not None and (message.event, message.at_ms) == (announcement.event, announcement.at_ms)
            for message in messages
        )


def _due(state: GenerationSet) -> Iterator[tuple[Announcement, int]]:
    """The announcements that the state asks for, with their number of partitions."""
    active = state.active_generation
    if active is None:
        return
    other = active.instance.other
    if state.asked_ms:
        yield Announcement(event=Event.ACTIVATE, to=other, at_ms=state.asked_ms), state.asked_partitions
    yield Announcement(event=Event.PASSIVATE, to=other, at_ms=active.complete_ms), active.switch_partitions
