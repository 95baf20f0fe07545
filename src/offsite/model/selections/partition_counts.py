"""Into how many partitions topics are restored, where that is not as many as they had: `orders=12`, or `12` for all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from offsite.model.errors import BadOption
from offsite.model.untrusted.names import check_topic_name
from offsite.model.untrusted.whole_number import whole_number

_ALL = "*"
_HINT = "write --repartition orders=12, or --repartition 12 for every topic"
_MAX_PARTITIONS = 100_000
"""More than a broker can hold: rather a typing error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCounts:
    """`counts` by the name a topic has in the backup; `keyless_in_turn`: what has no key goes round all partitions,
    and loses its order."""

    counts: Mapping[str, int] = field(default_factory=dict)
    keyless_in_turn: bool = False

    def of(self, topic: str, partitions: int, *, if_named: bool = False) -> int | None:
        """The new count for a topic of so many partitions; None when it stays as it is. `if_named`: a count for all
        topics does not mean this one."""
        count = self.counts.get(topic, partitions if if_named else self.counts.get(_ALL, partitions))
        return None if count == partitions else count

    def check_all_used(self, topics: Iterable[str]) -> None:
        """Raises `BadOption` when a topic is named that is not among `topics`."""
        if unused := sorted(self.counts.keys() - {_ALL} - set(topics)):
            raise BadOption(f"--repartition names {', '.join(unused)}, which is not restored", hint=_HINT)

    def __str__(self) -> str:
        counts = ",".join(f"{topic}={self.counts[topic]}" for topic in sorted(self.counts))
        return f"{counts},keyless in turn" if counts and self.keyless_in_turn else counts


def parse_partition_counts(values: Iterable[str], *, keyless_in_turn: bool = False) -> PartitionCounts:
    """Read comma-separated counts. Raises `BadOption` and `BadName`."""
    counts: dict[str, int] = {}
    for part in (part.strip() for value in values for part in value.split(",")):
        name, separator, number = part.rpartition("=")
        topic = check_topic_name(name) if separator and name != _ALL else _ALL
        count = whole_number(number, most=_MAX_PARTITIONS)
        if topic in counts or not count:
            raise BadOption(f"{part[:100]!r} is no partition count, or the second one", hint=_HINT)
        counts[topic] = count
    return PartitionCounts(counts=counts, keyless_in_turn=keyless_in_turn)
