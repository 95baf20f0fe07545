"""Requests to a cluster besides moving batches: look up and change topics and their logs; `groups` and `settings` do it
for consumer groups and for settings besides topics. Plain values in and out, offsite's own errors.

Requests are batched per broker: thousands of partitions cost as many round trips as the cluster has brokers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial

from offsite.kafka.coordinators import list_transactions
from offsite.kafka.evidence import UNANSWERED_MAX_S
from offsite.kafka.groups import GroupClient
from offsite.kafka.log_bounds import SICK_AFTER_S, LeaderAnswers, ListedBounds, find_bounds, find_epoch_ends
from offsite.kafka.net.backoff import DEAD_BROKER_MAX_S, MISSING_TOPIC_MAX_S, Backoff, through_outage
from offsite.kafka.net.routing import Router
from offsite.kafka.offsets import EpochEnd, find_offsets
from offsite.kafka.presence import PresenceState, find_presence, presence_now
from offsite.kafka.producer import missing_for_outcomes
from offsite.kafka.protocol import fetch, logs
from offsite.kafka.protocol.broker_errors import (
    LEADER_NOT_AVAILABLE,
    NONE,
    TOPIC_ALREADY_EXISTS,
    UNKNOWN_TOPIC_OR_PARTITION,
    broker_error,
)
from offsite.kafka.protocol.configs import (
    TopicConfigs,
    alter_configs_request,
    topic_configs_request,
)
from offsite.kafka.protocol.logs import EARLIEST, LATEST, READ_UNCOMMITTED, delete_records_request, log_dirs_request
from offsite.kafka.protocol.metadata import (
    ClusterMetadata,
    NewTopic,
    TopicMetadata,
    TopicOutcome,
    create_topics_request,
    delete_topics_request,
    split_requests,
)
from offsite.kafka.protocol.request import Api, Request
from offsite.kafka.reader import PartitionReader
from offsite.kafka.settings import SettingsClient
from offsite.kafka.watermarks import LogEndReader
from offsite.log.batch import BatchHeader
from offsite.log.range import Chunk, LogRange, TopicPartition
from offsite.log.transaction_state import ListedTransaction
from offsite.model.clock import Clock, SystemClock
from offsite.model.errors import (
    Denied,
    KafkaTimeout,
    KafkaTooOld,
    KafkaUnavailable,
    LeaderUnavailable,
    NoSuchTopic,
    OffsiteError,
)
from offsite.model.journal import decided

_TOPIC_CHANGE_MAX_S = 30.0  # for brokers to hear of a new or deleted topic from the controller
_CONFIG_TOPICS_MAX = 200  # per request: a topic answers with some 40 settings


class ClusterAdmin:
    """One cluster. Every method raises `KafkaUnavailable` when the cluster does not answer and `Denied` when a right is
    missing."""

    def __init__(self, router: Router, *, clock: Clock | None = None) -> None:
        self._router = router
        self._clock = clock or SystemClock()
        self.groups = GroupClient(router, clock=self._clock)
        """Consumer groups of the same cluster."""
        self.settings = SettingsClient(router, clock=self._clock)
        """Settings of the same cluster, besides topics."""

    def cluster(self) -> ClusterMetadata:
        """Ask for id, controller and brokers, without topics."""
        return self._router.metadata([])

    def check_readable(self) -> None:
        """Check that this client can read logs, and that a later run can continue. Raises `KafkaTooOld`."""
        with self._router.lease_any() as connection:
            connection.check_version(Api.FETCH, fetch.NAME_VERSION)
            connection.check_version(Api.OFFSET_FOR_LEADER_EPOCH, logs.EPOCH_ENDS_VERSION)

    def topics(self, names: Collection[str] | None = None) -> Mapping[str, TopicMetadata]:
        """Describe the named topics, or all visible topics. Raises `NoSuchTopic` for a named topic that does not exist.
        Some brokers may not know a new topic for a moment, so the method asks again before it raises."""
        absence = Backoff(self._clock, limit_s=MISSING_TOPIC_MAX_S)
        while True:
            try:
                return self._topics(names)
            except NoSuchTopic as error:
                absence.wait(error)

    def presence(self, names: Collection[str]) -> Mapping[str, PresenceState]:
        """Name → whether the topic exists, is deleted, or is hidden from this client. Asks every broker."""
        return find_presence(self._router, self._clock, names)

    def presence_now(self, name: str) -> PresenceState:
        """Ask all brokers once about a topic. For a topic that brokers use themselves."""
        return presence_now(self._router, name)

    def topic_configs(self, names: Iterable[str], *, with_defaults: bool = False) -> Mapping[str, Mapping[str, str]]:
        """Topic → settings made on the topic; `with_defaults`: the cluster's defaults too. Raises `NoSuchTopic`, and
        `KafkaNotAuthorized` for the first topic with unreadable settings."""
        settings = self.readable_topic_configs(names, with_defaults=with_defaults)
        if settings.denied:
            raise settings.denied[min(settings.denied)]
        return settings.configs

    def readable_topic_configs(self, names: Iterable[str], *, with_defaults: bool = False) -> TopicConfigs:
        """Return the settings as `topic_configs` does, and list topics with unreadable settings apart. Raises
        `NoSuchTopic`."""
        ordered = sorted(names)
        all_configs = TopicConfigs(configs={})
        for first in range(0, len(ordered), _CONFIG_TOPICS_MAX):
            part = ordered[first : first + _CONFIG_TOPICS_MAX]
            answer = self._router.call(topic_configs_request(part, with_defaults=with_defaults))
            if left_out := [name for name in part if name not in answer.configs and name not in answer.denied]:
                raise LeaderUnavailable(f"the answer leaves out the settings of {left_out[0]}", hint="run again")
            all_configs = all_configs.with_more(answer)
        return all_configs

    def bounds(self, partitions: Iterable[TopicPartition], *, patience_s: float = SICK_AFTER_S) -> ListedBounds:
        """Return log starts and high watermarks, with the leader epoch of the answer; partitions without an answer
        apart. `patience_s`: how long to ask again where a leader does not answer."""
        return find_bounds(self._router, self._clock, partitions, patience_s=patience_s)

    def start_offsets(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return log start offsets."""
        return find_offsets(self._router, self._clock, partitions, EARLIEST)

    def end_offsets(
        self, partitions: Iterable[TopicPartition], *, isolation: int = READ_UNCOMMITTED
    ) -> Mapping[TopicPartition, int]:
        """Return high watermarks, or last stable offsets with `READ_COMMITTED`."""
        return find_offsets(self._router, self._clock, partitions, LATEST, isolation=isolation)

    def log_ends(self, partitions: Iterable[TopicPartition], *, isolation: int = READ_UNCOMMITTED) -> LogEndReader:
        """Return a reader of the ends of the same partitions, for repeated reads."""
        return LogEndReader(self._router, self._clock, partitions, isolation=isolation)

    def epoch_ends(
        self, epochs: Mapping[TopicPartition, int], *, patience_s: float = SICK_AFTER_S
    ) -> Mapping[TopicPartition, EpochEnd | OffsiteError]:
        """Partition → end of the log part that leaders up to the given epoch wrote, or the reason why no leader answers
        within `patience_s`."""
        return find_epoch_ends(self._router, self._clock, epochs, patience_s=patience_s)

    def epoch_end_now(self, partition: TopicPartition, epoch: int) -> EpochEnd:
        """Ask once for the end of the records that leaders up to `epoch` wrote into the partition. Raises the leader's
        error."""
        leader = self._router.leader(partition)
        with self._router.lease_leader(partition) as connection:
            return LeaderAnswers(connection, partition, leader.epoch).end_of(epoch)

    def reader(self, *, patience_max_s: float = UNANSWERED_MAX_S) -> PartitionReader:
        """Return a reader of ranges. `patience_max_s`: how long a partition may return nothing."""
        return PartitionReader(self._router, clock=self._clock, patience_max_s=patience_max_s)

    def batch_at(self, partition: TopicPartition, offset: int) -> BatchHeader | None:
        """Return the header of the batch that holds `offset`; None where the log has no batch at `offset`. Raises the
        errors of a reader."""
        log_range = LogRange(topic=partition.topic, partition=partition.partition, start=offset, end=offset + 1)
        for item in PartitionReader(self._router, clock=self._clock).read(log_range, reach_back=True):
            if isinstance(item, Chunk):
                return item.batches[0]
        return None

    def sizes_bytes(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Estimate the bytes on the leader's disk. A partition is absent when the size is not readable, or not now."""
        sizes: dict[TopicPartition, int] = {}
        try:
            shares = self._router.by_leader(partitions)
        except KafkaUnavailable as error:
            decided("estimate", why=f"sizes are unknown: {error.message}")
            return sizes
        for node_id, share in shares.items():
            try:
                sizes |= self._router.call_each({node_id: log_dirs_request(share)})[node_id]
            except (KafkaUnavailable, Denied) as error:
                decided("estimate", why=f"sizes on broker {node_id} are unknown: {error.message}")
        return sizes

    def not_allowed(self, names: Collection[str], operations: Mapping[str, int]) -> Mapping[str, tuple[str, ...]]:
        """Existing topic → those names in `operations` (name → AclOperation code) that this client lacks on the
        topic."""
        topics = self._router.metadata(sorted(names), operations=True).topics.values()
        denied = {t.name: tuple(n for n, code in operations.items() if not t.allows(code)) for t in topics}
        return {name: missing for name, missing in denied.items() if missing}

    def cannot_replay(self) -> str:
        """Return why the brokers cannot replay transactions, with the missing API; empty when they can."""
        with self._router.lease_any() as connection:
            try:
                for api in (Api.DESCRIBE_TRANSACTIONS, Api.DESCRIBE_PRODUCERS):
                    connection.highest_version(api, 0, 0)
            except KafkaTooOld as error:
                return error.message
        return ""

    def missing_for_outcomes(self) -> str:
        """Return what is missing for transaction outcomes from this client, in words; empty when brokers accept them.
        The test is an outcome for a topic with an impossible name."""
        return through_outage(partial(missing_for_outcomes, self._router), self._clock, limit_s=DEAD_BROKER_MAX_S)

    def transactions(self) -> Mapping[int, ListedTransaction]:
        """Producer id → transactional id, as listed by the coordinator. Empty where brokers lack the API, or refuse. An
        unlisted id may exist all the same."""
        return list_transactions(self._router, self._clock)

    def create_topics(self, topics: Sequence[NewTopic], *, validate_only: bool = False) -> None:
        """Create all topics, and return when every partition has a leader. Raises `BadOption`, `KafkaNotAuthorized`.

        Some topics may exist when another fails: the error names the failed topic.
        """
        for part in split_requests(topics, _records):
            self._change(
                create_topics_request(part, timeout_ms=self._timeout_ms, validate_only=validate_only), "creating"
            )
        if topics and not validate_only:
            self._await_topics({topic.name: topic.partitions for topic in topics})

    def refused_topics(self, topics: Sequence[NewTopic]) -> Mapping[str, TopicOutcome]:
        """Return the topics that the cluster would refuse to create, with reasons. Creates nothing."""
        requests = (
            create_topics_request(part, timeout_ms=self._timeout_ms, validate_only=True)
            for part in split_requests(topics, _records)
        )
        asks = (partial(self._router.call_controller, request) for request in requests)
        answers = (through_outage(ask, self._clock, limit_s=DEAD_BROKER_MAX_S) for ask in asks)
        return {outcome.name: outcome for answer in answers for outcome in answer if outcome.error_code}

    def alter_topic_configs(self, changes: Mapping[str, Mapping[str, str | None]]) -> None:
        """Topic → setting → new value; None: the cluster's default. Raises `BadOption`, `NoSuchTopic`."""
        for part in split_requests(changes.items(), lambda change: len(change[1])):
            change = partial(self._change, alter_configs_request(dict(part)), "configuring")
            through_outage(change, self._clock, limit_s=DEAD_BROKER_MAX_S)

    def delete_topics(self, names: Sequence[str]) -> None:
        """Delete all topics, and return when the names can be used again. Raises `NoSuchTopic`."""
        self._change(delete_topics_request(names, timeout_ms=self._timeout_ms), "deleting")
        if names:
            self._await_topics(dict.fromkeys(names, 0))
            self._await_free_names(names)

    def delete_records(self, before: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Delete records below the given offsets. Returns the new log starts."""
        shares = self._router.by_leader(before)
        requests = {
            node_id: delete_records_request({key: before[key] for key in share}, timeout_ms=self._timeout_ms)
            for node_id, share in shares.items()
        }
        return {key: start for answer in self._router.call_each(requests).values() for key, start in answer.items()}

    @property
    def _timeout_ms(self) -> int:
        return self._router.config.request_timeout_ms // 2

    def _topics(self, names: Collection[str] | None) -> Mapping[str, TopicMetadata]:
        metadata = self._router.metadata(None if names is None else sorted(names))
        for topic in metadata.topics.values():
            if topic.error_code and names is not None:
                _check_topic(topic)
        return {name: topic for name, topic in metadata.topics.items() if topic.partitions}

    def _change(self, request: Request[Sequence[TopicOutcome]], doing: str) -> None:
        for outcome in self._router.call_controller(request):
            if outcome.error_code:
                raise broker_error(outcome.error_code, f"{doing} topic {outcome.name}", detail=outcome.detail)

    def _await_topics(self, partition_counts: Mapping[str, int]) -> None:
        backoff = Backoff(self._clock, limit_s=_TOPIC_CHANGE_MAX_S)
        while True:
            topics = self._router.metadata(sorted(partition_counts)).topics
            for topic in topics.values():
                _check_visible(topic)
            late = [name for name, count in partition_counts.items() if _led_partitions(topics.get(name)) != count]
            if not late:
                return
            backoff.wait(
                LeaderUnavailable(
                    f"topics {', '.join(late[:3])} do not have the requested settings on every broker yet"
                )
            )

    def _await_free_names(self, names: Sequence[str]) -> None:
        """Wait until the names are free. With ZooKeeper a deleted topic stays for a moment although no broker lists the
        topic."""
        backoff = Backoff(self._clock, limit_s=_TOPIC_CHANGE_MAX_S)
        probes = [NewTopic(name=name, partitions=1, replication_factor=1) for name in names]
        while existing := [o for o in self.refused_topics(probes).values() if o.error_code == TOPIC_ALREADY_EXISTS]:
            backoff.wait(KafkaTimeout(f"topic {existing[0].name} is being deleted"))


def _records(topic: NewTopic) -> int:
    return 1 + topic.partitions + len(topic.configs)


def _led_partitions(topic: TopicMetadata | None) -> int:
    return 0 if topic is None else sum(partition.leader >= 0 for partition in topic.partitions)


def _check_visible(topic: TopicMetadata) -> None:
    if topic.error_code not in {NONE, UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE}:
        raise broker_error(topic.error_code, f"topic {topic.name}")


def _check_topic(topic: TopicMetadata) -> None:
    if topic.error_code == UNKNOWN_TOPIC_OR_PARTITION or not topic.partitions:
        raise broker_error(topic.error_code, f"topic {topic.name}")


def delete_before(router: Router, partition: TopicPartition, offset: int, *, clock: Clock | None = None) -> None:
    """Move the partition's log start to `offset`, through outages. May be repeated.

    Raises `Denied`, `KafkaProtocolError` (a topic with `cleanup.policy=compact` alone deletes nothing),
    `KafkaUnavailable`.
    """

    def delete() -> None:
        try:
            ClusterAdmin(router).delete_records({partition: offset})
        except KafkaUnavailable:
            router.forget(partition)
            raise

    through_outage(delete, clock or SystemClock())
