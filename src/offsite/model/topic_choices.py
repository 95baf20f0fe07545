r"""Choices topic by topic: a new name, partitions, a new number of partitions, an incarnation. Pure.

- A new name, `old=new`: `orders=orders-back` (one topic), `orders-*=restored-*` (`*` stands for the same text on both
  sides), `regex:^(.+)-v[0-9]+$=\1-old` (searched, not anchored). A topic follows the rule with exactly its name, else
  the first matching pattern, else keeps its name; everything that belongs to the topic (group offsets) follows too.
- Partitions: numbers and ranges, `orders:0,2-5`; an unnamed topic is selected whole; another topic may follow a comma.
- A number of partitions to restore into: `orders=12`, or `12` for all.
- An incarnation of a topic that was deleted and made again: `orders=1` (counted from the oldest), `orders=oldest`,
  `orders=newest`, or `orders=4f1a` (the beginning of the topic id, four characters at least).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from offsite.model.bounds import whole_number
from offsite.model.errors import BadOption
from offsite.model.names import check_topic_name
from offsite.model.selection import REGEX_PREFIX, check_not_empty, join_patterns

_NUMBERS = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_PARTITIONS_HINT = "write --partitions orders:0,2-5"
_ALL = "*"
_COUNTS_HINT = "write --repartition orders=12, or --repartition 12 for every topic"
_MAX_PARTITIONS = 100_000
"""More than a broker can hold: rather a typing error."""
OLDEST, NEWEST = "oldest", "newest"
ID_CHARACTERS_MIN = 4
"""Of a topic id. Shorter texts of digits alone are numbers."""
_INCARNATION_HINT = "write --incarnation orders=1, orders=oldest, orders=newest, or orders= and how its topic id begins"

_STAR = "*"
_RENAME_HINT = "write --rename old=new, 'orders-*=restored-*' or 'regex:^(.+)-v1$=\\1-old'"


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
                f"--partitions names {topic}:{highest}, but the topic has {partitions} partitions",
                hint=_PARTITIONS_HINT,
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
        raise BadOption("--partitions without a topic", hint=_PARTITIONS_HINT)
    return PartitionSelection(chosen=chosen)


def _range(part: str, numbers: str) -> range:
    match = _NUMBERS.fullmatch(numbers)
    if match is None:
        raise BadOption(f"{part!r} names no partitions", hint=_PARTITIONS_HINT)
    first, last = int(match[1]), int(match[2] or match[1])
    if last < first:
        raise BadOption(f"{part!r} ends before it begins", hint=_PARTITIONS_HINT)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Rename:
    """One rule: both sides as typed."""

    source: str
    target: str

    @property
    def is_literal(self) -> bool:
        return not self.source.startswith(REGEX_PREFIX) and _STAR not in self.source

    def apply(self, topic: str) -> str | None:
        """Return the new name, or None when the rule does not concern the topic."""
        if self.is_literal:
            return self.target if topic == self.source else None
        match = self._pattern().search(topic)
        return None if match is None else match.expand(self._template())

    def check(self) -> None:
        """Check the rule. Raises `BadOption` or `BadName`."""
        check_not_empty(self.source)
        if self.is_literal:
            check_topic_name(self.source)
            check_topic_name(self.target)
            return
        if not self.source.startswith(REGEX_PREFIX) and self.source.count(_STAR) != self.target.count(_STAR):
            raise BadOption(f"{self}: both sides need the same number of *", hint=_RENAME_HINT)
        try:
            self._pattern().sub(self._template(), "")  # reads the right side, whether anything matches or not
        except (re.error, IndexError) as error:
            raise BadOption(f"{self} is not a rename: {error}", hint=_RENAME_HINT) from error

    def __str__(self) -> str:
        return f"{self.source}={self.target}"

    def _pattern(self) -> re.Pattern[str]:
        if self.source.startswith(REGEX_PREFIX):
            return re.compile(self.source.removeprefix(REGEX_PREFIX))
        return re.compile("^" + "(.*)".join(map(re.escape, self.source.split(_STAR))) + r"\Z")

    def _template(self) -> str:
        if self.source.startswith(REGEX_PREFIX):
            return self.target
        first, *parts = self.target.replace("\\", r"\\").split(_STAR)
        return first + "".join(rf"\g<{number}>{part}" for number, part in enumerate(parts, 1))


@dataclass(frozen=True, kw_only=True)  # no slots: thousands of rules are sorted once
class Renames:
    """All rules of a restore, in the given order."""

    rules: tuple[Rename, ...] = ()

    @cached_property
    def _exact(self) -> Mapping[str, str]:
        """The rules of one topic each."""
        return {rule.source: rule.target for rule in self.rules if rule.is_literal}

    @cached_property
    def _patterns(self) -> tuple[Rename, ...]:
        return tuple(rule for rule in self.rules if not rule.is_literal)

    def target_name(self, topic: str) -> str:
        """Return the name under which `topic` is restored. Raises `BadName` when a pattern makes a name that Kafka
        refuses."""
        if (exact := self._exact.get(topic)) is not None:
            return check_topic_name(exact)
        for rule in self._patterns:
            if (name := rule.apply(topic)) is not None:
                return check_topic_name(name)
        return topic

    def target_names(self, topics: Iterable[str]) -> dict[str, str]:
        """Return the name of every topic. Raises `BadOption` where two topics would get one name, and as
        `target_name`."""
        sources: dict[str, str] = {}
        for topic in sorted(topics):
            if (other := sources.setdefault(self.target_name(topic), topic)) != topic:
                raise BadOption(
                    f"two topics would be restored under the same name: {other} and {topic}",
                    hint="give each topic its own --rename",
                )
        return {topic: name for name, topic in sources.items()}

    def unused(self, topics: Iterable[str]) -> tuple[str, ...]:
        """Return the left sides of the rules that concern none of `topics`."""
        names = frozenset(topics)
        return tuple(
            rule.source
            for rule in self.rules
            if (rule.source not in names if rule.is_literal else all(rule.apply(name) is None for name in names))
        )

    def is_about(self, topic: str) -> bool:
        """Whether a rule concerns the topic."""
        return topic in self._exact or any(rule.apply(topic) is not None for rule in self._patterns)

    def __str__(self) -> str:
        return join_patterns(map(str, self.rules))


def parse_renames(values: Iterable[str]) -> Renames:
    """Parse rules, one per element. Raises `BadOption` and `BadName`."""
    rules: dict[str, Rename] = {}
    for text in filter(None, map(str.strip, values)):
        source, separator, target = text.rpartition("=")
        if not separator or source in rules:
            raise BadOption(f"{text!r} is not a rename, or is the second rename with that name", hint=_RENAME_HINT)
        rules[source] = Rename(source=source, target=target)
        rules[source].check()
    return Renames(rules=tuple(rules.values()))
