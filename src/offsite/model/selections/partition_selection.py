"""Which partitions of topics are meant: numbers and ranges of numbers, topic by topic.

Syntax: `orders:0,2-5` (partitions 0, 2, 3, 4 and 5 of `orders`); after a comma another topic may follow. A topic that
is not named is meant whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from offsite.model.errors import BadOption
from offsite.model.untrusted.names import check_topic_name

_NUMBERS = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_HINT = "write --partitions orders:0,2-5"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSelection:
    """`chosen` holds the ranges of each topic that is named."""

    chosen: Mapping[str, tuple[range, ...]] = field(default_factory=dict)

    def includes(self, topic: str, partition: int) -> bool:
        ranges = self.chosen.get(topic)
        return ranges is None or any(partition in each for each in ranges)

    def check_exists(self, topic: str, partitions: int) -> None:
        """Raises `BadOption` when one is chosen that a topic of so many partitions does not have."""
        highest = max((each[-1] for each in self.chosen.get(topic, ())), default=-1)
        if highest >= partitions:
            raise BadOption(f"--partitions names {topic}:{highest}, the topic has {partitions}", hint=_HINT)

    def __str__(self) -> str:
        return ",".join(f"{topic}:{','.join(map(_text, self.chosen[topic]))}" for topic in sorted(self.chosen))


def parse_partitions(values: Iterable[str]) -> PartitionSelection:
    """Read comma-separated choices. Raises `BadOption` and `BadName`."""
    chosen: dict[str, tuple[range, ...]] = {}
    for value in values:
        topic = ""
        for part in (part.strip() for part in value.split(",")):
            name, separator, numbers = part.rpartition(":")
            topic = check_topic_name(name) if separator else topic
            chosen[topic] = (*chosen.get(topic, ()), _range(part, numbers))
    if "" in chosen:
        raise BadOption("--partitions without a topic", hint=_HINT)
    return PartitionSelection(chosen=chosen)


def _range(part: str, numbers: str) -> range:
    found = _NUMBERS.fullmatch(numbers)
    if found is None:
        raise BadOption(f"{part!r} names no partitions", hint=_HINT)
    first, last = int(found[1]), int(found[2] or found[1])
    if last < first:
        raise BadOption(f"{part!r} ends before it begins", hint=_HINT)
    return range(first, last + 1)


def _text(numbers: range) -> str:
    return f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}"
