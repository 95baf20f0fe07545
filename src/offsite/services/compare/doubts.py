"""What a proof did not find, it looks for once more: an end of a log may have been told too early.

That records differ is seen in the records themselves. That they are missing rests on the word of a leader, who says
where its log ends, and after an election may not know yet; that a batch is damaged, on one answer. Such a finding
counts when the leader says the same again and again, and when what was damaged is damaged the second time too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from offsite.copy.compare.partitions import PartitionProof
from offsite.kafka.evidence import CONFIRMATIONS
from offsite.log.range import TopicPartition
from offsite.model.clock import Clock
from offsite.model.errors import Damaged, KafkaUnavailable, OffsiteError
from offsite.model.journal import decided
from offsite.services.cluster import LogEnds
from offsite.services.compare.bounds import find_bounds
from offsite.services.compare.expected import Check, ExpectedBounds, ExpectedTopic, checks

Bounds = Mapping[TopicPartition, ExpectedBounds]

_AGAIN_AFTER_S = 0.2
_ENDED = -1


def partition_counts(topics: Sequence[ExpectedTopic], admin: LogEnds, clock: Clock) -> Mapping[str, int]:
    """How many partitions each topic of the cluster has; asked again when one of `topics` seems not to be as it should:
    not every broker has heard of a new topic yet."""
    counts: Mapping[str, int] = {}
    for number in range(CONFIRMATIONS + 1):
        clock.sleep(_AGAIN_AFTER_S * number)
        counts = {name: len(topic.partitions) for name, topic in admin.topics().items()}
        if all(is_comparable(topic, counts.get(topic.target, 0)) for topic in topics):
            break
    return counts


def is_comparable(topic: ExpectedTopic, partitions: int) -> bool:
    """A topic that was restored has the partitions it was given; the one that was backed up may have more since."""
    return partitions == topic.partitions or (topic.whole_log and partitions > topic.partitions)


def is_doubtful(check: Check, outcome: PartitionProof | OffsiteError) -> bool:
    """Whether a second look could find what the first one did not."""
    if isinstance(outcome, OffsiteError):
        return isinstance(outcome, Damaged)
    ended_early = outcome.difference is not None and outcome.difference.target_offset == _ENDED
    return ended_early or bool(check.truncated or check.wrong_bounds)


def told_again(
    doubtful: Collection[TopicPartition],
    topics: Sequence[ExpectedTopic],
    first: Bounds,
    admin: LogEnds,
    clock: Clock,
) -> Bounds:
    """The newest bounds of those `doubtful` partitions, all of `topics`, that are not where they were at `first`. Their
    leaders are asked `CONFIRMATIONS` times more: whatever moves in between, a first sign is not yet the end."""
    moved: dict[TopicPartition, ExpectedBounds] = {}
    for number in range(1, CONFIRMATIONS + 1):
        clock.sleep(_AGAIN_AFTER_S * number)
        try:
            now = find_bounds(topics, admin, clock=clock).bounds
        except KafkaUnavailable as error:
            decided("stands", why=f"the ends of logs were not told again: {error.message}")
            break
        moved |= {key: bounds for key, bounds in now.items() if key in doubtful and bounds != first.get(key)}
    return moved


def second_checks(
    topic: ExpectedTopic, bounds: Bounds, again: Collection[TopicPartition], *, exact: bool
) -> Sequence[Check]:
    """The checks of the partitions `again`; of all, where records go by key: these are compared together."""
    found = list(checks(topic, bounds, exact=exact))
    wanted = [check for check in found if check.target.topic_partition in again]
    return found if wanted and topic.repartition is not None else wanted
