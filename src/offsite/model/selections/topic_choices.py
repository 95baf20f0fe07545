"""Choices topic by topic: partitions, a new number of partitions, an incarnation.

- Partitions: numbers and ranges of numbers, `orders:0,2-5` (partitions 0, 2, 3, 4 and 5 of `orders`). An unnamed topic
  is selected whole.
- A number of partitions, to restore a topic into more or fewer than before: `orders=12`, or `12` for all.
- An incarnation, where a backup holds several because the topic was deleted and made again: `orders=1` (counted from
  the oldest), `orders=oldest`, `orders=newest`, or `orders=4f1a` (the beginning of the topic id, four characters at
  least).

After partitions, another topic may follow behind a comma.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from offsite.model.errors import BadOption
from offsite.model.untrusted.names import check_topic_name
from offsite.model.untrusted.whole_number import whole_number

_NUMBERS = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_HINT = "write --partitions orders:0,2-5"
_ALL = "*"
_COUNTS_HINT = "write --repartition orders=12, or --repartition 12 for every topic"
_MAX_PARTITIONS = 100_000
"""More than a broker can hold: rather a typing error."""
OLDEST, NEWEST = "oldest", "newest"
ID_CHARACTERS_MIN = 4
"""Of a topic id. Shorter texts of digits alone are numbers."""
_INCARNATION_HINT = "write --incarnation orders=1, orders=oldest, orders=newest, or orders= and how its topic id begins"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSelection:
    """The selected partitions. `chosen` holds the ranges of every named topic."""

    chosen: Mapping[str, tuple[range, ...]] = field(default_factory=dict)

    def includes(self, topic: str, partition: int) -> bool:
        ranges = self.chosen.get(topic)
        return ranges is None or any(partition in numbers for numbers in ranges)

    def check_exists(self, topic: str, partitions: int) -> None:
        """Check the selection against a topic of `partitions` partitions. Raises `BadOption` for a missing
        partition."""
        highest = max((numbers[-1] for numbers in self.chosen.get(topic, ())), default=-1)
        if highest >= partitions:
            raise BadOption(
                f"--partitions names {topic}:{highest}, but the topic has {partitions} partitions", hint=_HINT
            )

    def __str__(self) -> str:
        return ",".join(f"{topic}:{','.join(map(_text, self.chosen[topic]))}" for topic in sorted(self.chosen))


def parse_partitions(values: Iterable[str]) -> PartitionSelection:
    """Parse comma-separated choices. Raises `BadOption` and `BadName`."""
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
    match = _NUMBERS.fullmatch(numbers)
    if match is None:
        raise BadOption(f"{part!r} names no partitions", hint=_HINT)
    first, last = int(match[1]), int(match[2] or match[1])
    if last < first:
        raise BadOption(f"{part!r} ends before it begins", hint=_HINT)
    return range(first, last + 1)


def _text(numbers: range) -> str:
    return f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCounts:
    """The new numbers of partitions. `counts`: by the topic's name in the backup. `keyless_in_turn`: records without a
    key go round all partitions, and lose their order. `batch_bytes`: size of the new batches, None for the usual
    size."""

    counts: Mapping[str, int] = field(default_factory=dict)
    keyless_in_turn: bool = False
    batch_bytes: int | None = None

    def of(self, topic: str, partitions: int, *, if_named: bool = False) -> int | None:
        """Return the new count for a topic of `partitions` partitions; None when unchanged. `if_named`: ignore a count
        for all topics."""
        return None if self.leaves(topic, partitions, if_named=if_named) else self._count_for(topic, if_named=if_named)

    def leaves(self, topic: str, partitions: int, *, if_named: bool = False) -> bool:
        """Whether a count applies to the topic of `partitions` partitions, and changes nothing."""
        return self._count_for(topic, if_named=if_named) == partitions

    def _count_for(self, topic: str, *, if_named: bool) -> int | None:
        return self.counts.get(topic, None if if_named else self.counts.get(_ALL))

    def check_all_used(self, topics: Iterable[str]) -> None:
        """Check the names against `topics`. Raises `BadOption` when another topic is named."""
        if unused := sorted(self.counts.keys() - {_ALL} - set(topics)):
            raise BadOption(f"--repartition names {', '.join(unused)}, which is not restored", hint=_COUNTS_HINT)

    def __str__(self) -> str:
        counts = ",".join(f"{topic}={self.counts[topic]}" for topic in sorted(self.counts))
        more = [",keyless in turn"] if self.keyless_in_turn else []
        more += [f",batches of {self.batch_bytes} bytes"] if self.batch_bytes is not None else []
        return counts + "".join(more) if counts else counts


def parse_partition_counts(
    values: Iterable[str], *, keyless_in_turn: bool = False, batch_bytes: int | None = None
) -> PartitionCounts:
    """Parse counts, one per element. Raises `BadOption`, also for a batch size without counts, and `BadName`."""
    counts: dict[str, int] = {}
    for part in map(str.strip, values):
        name, separator, number = part.rpartition("=")
        topic = check_topic_name(name) if separator and name != _ALL else _ALL
        count = whole_number(number, most=_MAX_PARTITIONS)
        if topic in counts or not count:
            raise BadOption(
                f"{part[:100]!r} is not a partition count, or is the second count of its topic", hint=_COUNTS_HINT
            )
        counts[topic] = count
    if batch_bytes is not None and not counts:
        raise BadOption(
            "--batch-bytes is only for topics that are repartitioned: all other batches stay as they were at the "
            "source",
            hint=(
                "omit --batch-bytes; to write slower use --write-limit, to change the number of partitions use "
                "--repartition"
            ),
        )
    return PartitionCounts(counts=counts, keyless_in_turn=keyless_in_turn, batch_bytes=batch_bytes)


def parse_incarnations(values: Iterable[str]) -> Mapping[str, str]:
    """Topic → text that names the incarnation. Raises `BadOption` and `BadName`."""
    chosen: dict[str, str] = {}
    for text in filter(None, map(str.strip, values)):
        topic, _, name = text.partition("=")
        if not _is_choice(name) or topic in chosen:
            raise BadOption(
                f"{text!r} does not name an incarnation, or is the second one for that topic", hint=_INCARNATION_HINT
            )
        chosen[check_topic_name(topic)] = name
    return chosen


def _is_choice(name: str) -> bool:
    return name in {OLDEST, NEWEST} or is_number(name) or (len(name) >= ID_CHARACTERS_MIN and "," not in name)


def is_number(name: str) -> bool:
    """Whether the text counts incarnations; longer texts begin an id."""
    return name.isascii() and name.isdecimal() and len(name) < ID_CHARACTERS_MIN
