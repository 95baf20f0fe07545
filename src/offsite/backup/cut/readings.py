"""Takes readings: all ends, again and again, always between two looks at the ends of `__transaction_state`.

A producer is clean in a reading if none of its transactions was ending at the time (`offsite.cut.readings`). A reading
must therefore be short, and several are needed: a producer with a transaction ending in a reading has none in another.
Three readings are made in a row, where every look at the coordinators ends a reading and begins the next, and nothing
is decoded meanwhile. After a row the unclean producers are determined, and three more readings follow if needed.

`__transaction_state` and `__consumer_offsets` are compacted. A record replaced by a later record of its key may be
gone, and with it the evidence that a transaction was about to end. Offsets have no gaps until a cleaner removes
records, so a range is complete if it has as many records as offsets. A cleaner removes nothing from the active segment
and nothing behind the last stable offset: recent records are gone only if a segment was filled and cleaned within
seconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from offsite.cut.readings import EndsReading
from offsite.cut.window import Ends
from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.presence import PresenceState
from offsite.kafka.protocol.logs import READ_COMMITTED
from offsite.kafka.read_task import ReadTask
from offsite.kafka.reader import PartitionReader
from offsite.kafka.watermarks import LogEndReader
from offsite.log.batch import BatchHeader
from offsite.log.range import Chunk, LogRange, PartitionId, TopicPartition
from offsite.log.records.batch_records import iterate
from offsite.log.records.record import Record
from offsite.log.transaction_state import ListedTransaction, TransactionChange, parse_transaction_change
from offsite.model.clock import Clock, SystemClock
from offsite.model.errors import (
    KafkaNotAuthorized,
    LeaderUnavailable,
    NoSuchTopic,
    OffsiteError,
    SourceTruncated,
    TopicReplaced,
)
from offsite.model.names import named

STATE_TOPIC = "__transaction_state"
RIGHT = f"grant the principal DESCRIBE and READ on topic {STATE_TOPIC}"
ROW = 3
"""Readings in a row before they are decoded."""
READINGS_MAX = 30
READINGS_MAX_S = 2.0
"""A producer that is not clean by that time ends transactions all the time, and its topics get a lower class."""
PAUSE_S, PAUSE_MAX_S = 0.005, 0.25
"""Before the second row; doubled before every further row: a marker may be late by a whole request."""
DISTURBED_MAX = 10
"""Rows without a complete reading: leaders keep moving."""
GROUPS_TOPIC = "__consumer_offsets"
_NAMED_MAX = 3
_GROUPS_UNSEEN = f"the principal may not see all of {GROUPS_TOPIC}: grant DESCRIBE and READ on the topic"

Unclean = Callable[
    [Sequence[EndsReading], Sequence[TransactionChange], Mapping[int, ListedTransaction]], Collection[object]
]
"""Finds the producers that are clean in none of the readings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingsBaseline:
    """Facts to know before anything else is read: the ends of `__transaction_state`; the transactional ids listed by
    coordinators afterwards; and for every partition of `__consumer_offsets` the last stable offset, before which no
    transaction was open, and afterwards the end. `groups_trouble`: why some facts are missing, if any."""

    state: StateLog
    starts: Mapping[int, int]
    listed: Mapping[int, ListedTransaction] = field(default_factory=dict)
    group_stable: Ends = field(default_factory=dict)
    group_ends: Ends = field(default_factory=dict)
    groups_trouble: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingSeries:
    """Fields as in `CutEvidence`. `failed`: partitions outside of all readings, because an end could not be read or the
    topic was replaced. `partition_counts`: partitions of every topic of the cluster after the last reading. `notes`:
    remarks for a person."""

    readings: tuple[EndsReading, ...]
    changes: tuple[TransactionChange, ...] | None
    listed: Mapping[int, ListedTransaction]
    failed: Mapping[PartitionId, OffsiteError] = field(default_factory=dict)
    partition_counts: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def partial(self) -> frozenset[str]:
        """The topics with partitions inside and outside of the readings: partitions were added meanwhile, or could not
        be read. Records in missing partitions are in no cut."""
        read = Counter(key.topic for key in self.readings[-1].ends)
        return frozenset(topic for topic, count in read.items() if count < self.partition_counts.get(topic, 0))


def begin_readings(admin: ClusterAdmin) -> ReadingsBaseline:
    """Read the baseline. To be called before the groups are read. Raises `KafkaUnavailable` and `Denied` where the
    whole cluster does not answer."""
    state = open_state_log(admin)
    starts = by_number(state.ends.read())
    keys = _group_keys(admin)
    stable = admin.log_ends(keys, isolation=READ_COMMITTED).read()
    ends = admin.log_ends(keys).read()
    both = [key for key in keys if key in stable and key in ends]
    is_absent = not keys and admin.presence_now(GROUPS_TOPIC) is PresenceState.DELETED
    # Last: a listing shows a coordinator's memory, which changes a moment after the record is durable.
    listed = {} if state.is_absent else admin.transactions()
    return ReadingsBaseline(
        state=state,
        starts=starts,
        listed=listed,
        group_stable={keys[key]: stable[key] for key in both},
        group_ends={keys[key]: ends[key] for key in both},
        groups_trouble="" if is_absent or (both and len(both) == len(keys)) else _GROUPS_UNSEEN,
    )


def take_readings(
    admin: ClusterAdmin,
    baseline: ReadingsBaseline,
    partitions: Iterable[PartitionId],
    *,
    unclean: Unclean,
    clock: Clock | None = None,
) -> ReadingSeries:
    """Take readings of `partitions` and of `__consumer_offsets` until every changing producer was clean in a reading.

    If `__transaction_state` did not exist at the baseline, every broker is asked again after the last reading: if the
    topic exists now, everything is read again, the topic from its beginning. Raises `LeaderUnavailable` where leaders
    go on moving.
    """
    keys = {
        TopicPartition(topic=key.topic, partition=key.partition): key for key in (*partitions, *baseline.group_ends)
    }
    clock = clock or SystemClock()
    series = _SeriesReader(admin, baseline, keys, unclean, clock).run()
    if baseline.state.is_absent and admin.presence_now(STATE_TOPIC) is not PresenceState.DELETED:
        baseline = replace(baseline, state=open_state_log(admin))
        series = _SeriesReader(admin, baseline, keys, unclean, clock).run()
    return _without_strangers(admin, series)


class _SeriesReader:
    def __init__(
        self,
        admin: ClusterAdmin,
        baseline: ReadingsBaseline,
        keys: Mapping[TopicPartition, PartitionId],
        unclean: Unclean,
        clock: Clock,
    ) -> None:
        self._keys, self._unclean, self._clock = keys, unclean, clock
        self._baseline, self._state = baseline, baseline.state.ends
        self._ends: LogEndReader = admin.log_ends(keys)
        self._reader = admin.reader()
        self._readings: list[EndsReading] = []
        self._changes: list[TransactionChange] = []
        self._read_to = baseline.starts
        self._trouble = baseline.state.trouble

    def run(self) -> ReadingSeries:
        self._warm_up()
        deadline_s, disturbed, pause_s = self._clock.monotonic_s() + READINGS_MAX_S, 0, PAUSE_S
        while True:
            row = self._row()
            disturbed = 0 if row else disturbed + 1
            if disturbed > DISTURBED_MAX:
                raise LeaderUnavailable("the log ends cannot be read together", hint="are brokers restarting?")
            if not row:
                self._warm_up()
                continue
            self._readings += row
            if self._all_clean() or self._is_enough(deadline_s):
                return self._series()
            self._clock.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_MAX_S)

    def _warm_up(self) -> None:
        """Find leaders, and give up partitions without a leader."""
        self._ends.read()
        self._state.read()

    def _row(self) -> list[EndsReading]:
        """Make readings in a row, and return the readings with the ends of all partitions. Decoding comes after all
        requests."""
        looks, requests = [self._state.ask()], []
        for _ in range(ROW):
            requests.append(self._ends.ask())
            looks.append(self._state.ask())
        states = [self._state.decode(look) for look in looks]
        readings: list[EndsReading] = []
        for (before, after), unread in zip(pairwise(states), requests, strict=True):
            ends = self._ends.decode(unread)
            if before is not None and after is not None and ends is not None:
                named = {self._keys[key]: end for key, end in ends.items()}
                readings.append(EndsReading(before=by_number(before), ends=named, after=by_number(after)))
        return readings

    def _all_clean(self) -> bool:
        """Whether every producer is clean. True also where nobody can tell, because more readings would teach
        nothing."""
        if self._trouble:
            return True
        after = self._readings[-1].after
        try:
            self._changes += read_changes(self._reader, self._read_to, after)
        except OffsiteError as error:
            self._trouble = trouble_of(error)
            return True
        self._read_to = after
        series = self._series()
        return not self._unclean(series.readings, series.changes or (), series.listed)

    def _is_enough(self, deadline_s: float) -> bool:
        return len(self._readings) >= READINGS_MAX or self._clock.monotonic_s() >= deadline_s

    def _series(self) -> ReadingSeries:
        """The readings up to now, of the partitions still in use.

        A given-up partition of `__transaction_state` is in no result, and the listing is dropped as well: a listed id
        without changes could belong to the given-up partition, and have changed since.
        """
        lost = {key.partition for key in self._state.failed}
        logs = {log for log in self._readings[-1].after if log not in lost}
        failed = {self._keys[key]: error for key, error in self._ends.failed.items()}
        is_known = not self._trouble and (logs or not lost)
        return ReadingSeries(
            readings=tuple(_only(reading, logs, failed) for reading in self._readings),
            changes=tuple(sorted(change for change in self._changes if change.log in logs)) if is_known else None,
            listed={} if lost or self._baseline.state.is_absent else self._baseline.listed,
            failed=failed,
            notes=(*([self._trouble] if self._trouble else []), *_lost_notes(self._state.failed)),
        )


def _lost_notes(failed: Mapping[TopicPartition, OffsiteError]) -> list[str]:
    if not failed:
        return []
    names = named(list(map(str, sorted(failed))), most=_NAMED_MAX)
    return [f"transactions coordinated by {names} are unknown: {failed[min(failed)].message}"]


def _only(reading: EndsReading, logs: Collection[int], failed: Collection[PartitionId]) -> EndsReading:
    return EndsReading(
        before={log: end for log, end in reading.before.items() if log in logs},
        ends={key: end for key, end in reading.ends.items() if key not in failed},
        after={log: end for log, end in reading.after.items() if log in logs},
    )


def _without_strangers(admin: ClusterAdmin, series: ReadingSeries) -> ReadingSeries:
    """Drop partitions of replaced topics. Ends are read by name: a topic with the expected id after the last reading
    had the id in all readings."""
    topics = admin.topics()
    failed: dict[PartitionId, OffsiteError] = dict(series.failed)
    for key in series.readings[-1].ends:
        topic = topics.get(key.topic)
        if topic is None:
            failed[key] = NoSuchTopic(f"{key.topic} was deleted during the read of its ends")
        elif key.topic_id and topic.topic_id is not None and str(topic.topic_id) != key.topic_id:
            failed[key] = TopicReplaced(f"{key.topic} was deleted and created again", hint="run again")
    series = replace(series, partition_counts={name: len(topic.partitions) for name, topic in topics.items()})
    if len(failed) == len(series.failed):
        return series
    logs = series.readings[-1].after.keys()
    return replace(series, readings=tuple(_only(reading, logs, failed) for reading in series.readings), failed=failed)


def _group_keys(admin: ClusterAdmin) -> dict[TopicPartition, PartitionId]:
    """The partitions of `__consumer_offsets`; empty where nobody has committed yet, or where the topic is hidden from
    us."""
    topic = admin.topics().get(GROUPS_TOPIC)
    topic_id = str(topic.topic_id) if topic and topic.topic_id else ""
    return {
        TopicPartition(topic=GROUPS_TOPIC, partition=partition.partition): PartitionId(
            GROUPS_TOPIC, topic_id, partition.partition
        )
        for partition in (topic.partitions if topic else ())
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class StateLog:
    """The topic's partitions. `is_absent`: the topic does not exist, so no transaction ever began on the cluster, since
    a coordinator leads a partition of the topic. `trouble`: why its ends or records cannot be read; empty if they
    can."""

    ends: LogEndReader
    is_absent: bool = False
    trouble: str = ""


def open_state_log(admin: ClusterAdmin) -> StateLog:
    """Find the topic. Every broker is asked if a broker does not know the topic. Raises `KafkaUnavailable`."""
    presence = admin.presence_now(STATE_TOPIC)
    if presence is PresenceState.THERE:
        topic = admin.topics([STATE_TOPIC])[STATE_TOPIC]
        keys = [TopicPartition(topic=STATE_TOPIC, partition=partition.partition) for partition in topic.partitions]
        return StateLog(ends=admin.log_ends(keys))
    trouble = {
        PresenceState.DELETED: "",
        PresenceState.DENIED: f"the principal may not see {STATE_TOPIC}: {RIGHT}",
        PresenceState.UNCLEAR: f"the brokers do not agree whether topic {STATE_TOPIC} exists",
    }
    return StateLog(ends=admin.log_ends([]), is_absent=presence is PresenceState.DELETED, trouble=trouble[presence])


def by_number(ends: Mapping[TopicPartition, int]) -> dict[int, int]:
    return {key.partition: end for key, end in ends.items()}


def read_changes(reader: PartitionReader, start: Mapping[int, int], end: Mapping[int, int]) -> list[TransactionChange]:
    """Read all records between two vectors of ends, by log and position. A partition outside of `start` starts at 0.

    Raises `SourceTruncated` where a record is gone, `DamagedBatch` for a record of an unknown version, and the errors
    of the reader.
    """
    changes: list[TransactionChange] = []
    for log in sorted(end):
        low = start.get(log, 0)
        if low < end[log]:
            span = LogRange(topic=STATE_TOPIC, partition=log, start=low, end=end[log])
            for _, header, records in read_dense(reader, span):
                if not header.is_control:
                    changes += [parse_transaction_change(record, log) for record in records]
    return changes


def trouble_of(error: OffsiteError) -> str:
    """The message for a person when changes could not be read."""
    todo = RIGHT if isinstance(error, KafkaNotAuthorized) else error.hint
    return f"the states of transactions cannot be read: {error.message}" + (f": {todo}" if todo else "")


def read_dense(reader: PartitionReader, log_range: LogRange) -> Iterator[tuple[Chunk, BatchHeader, list[Record]]]:
    """Yield every batch with its records inside of the range, control records included. Raises `SourceTruncated` at the
    end if records are missing, and the errors of the reader."""
    count = 0
    for item in reader.read_task(ReadTask(range=log_range, was_compacted=True, reach_back=True)):
        if not isinstance(item, Chunk):
            continue
        for header in item.batches:
            inside = [
                record
                for record in iterate(header.view(item.data), header)
                if log_range.start <= record.offset < log_range.end
            ]
            count += len(inside)
            yield item, header, inside
    if count != len(log_range):
        raise SourceTruncated(
            f"of the {len(log_range)} records of {log_range} {len(log_range) - count} are missing: compacted or "
            "deleted",
            hint="run again; if the error stays, check the segment settings of the topic",
        )
