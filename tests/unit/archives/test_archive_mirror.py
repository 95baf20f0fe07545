"""What of an archive goes because its topic let it go, and what is kept because nobody says so for certain."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

import pytest

from offsite.archives.archive import ArchiveTopic
from offsite.archives.formats import open_retention, open_writer
from offsite.archives.indexed.archive import IndexedArchive
from offsite.archives.indexed.index import EarlierSettings, TopicIndex
from offsite.archives.indexed.index_json import encode_index, parse_index
from offsite.archives.retention import RetentionLimits
from offsite.archives.retention_indexed import IndexedRetention
from offsite.archives.retention_run import ArchiveRetentionPlan, RetentionTarget, carry_out, plan_retention
from offsite.archives.retention_source import MirrorSource
from offsite.kafka.log_bounds import ListedBounds, LogBounds
from offsite.kafka.presence import PresenceState
from offsite.kafka.protocol.configs import TopicConfigs
from offsite.kafka.protocol.metadata import TopicMetadata
from offsite.log.range import TopicPartition
from offsite.model.clock import SystemClock
from offsite.model.errors import BadOption, KafkaNotAuthorized, KafkaUnavailable, LeaderUnavailable, OffsiteError
from offsite.model.untrusted.bounded_json import DIGEST_KEY
from tests.archive_records import write_range
from tests.memory_archive import MemoryArchive
from tests.unit.archives.test_archive_retention import NOW_MS, QUARTER_MS, FixedClock, age_of, made, records

THE_ID, OTHER_ID = UUID(int=7), UUID(int=8)
ID = str(THE_ID)
NO_OTHER = RetentionLimits()
ORDERS = TopicPartition(topic="orders", partition=0)
PER_FILE, END = 4, 24
LATER = ("generation", "generations")
"""Fields that files without a digest have not got."""
OLD = {"retention.ms": str(age_of(10))}
"""Lets two files go of six: the third holds record 10."""


@dataclass
class Archive:
    """Six files of four records in one partition, the last one 19 hours old."""

    configs: Mapping[str, str]
    format: str = "avro"
    topic_id: str = ID
    files: MemoryArchive = field(default_factory=lambda: MemoryArchive(NOW_MS))
    end: int = 0

    def __post_init__(self) -> None:
        self.export_to(END)

    def export_to(self, end: int) -> None:
        for start in range(self.end, end, PER_FILE):
            writer = open_writer(self.format, self.files)
            writer.ends()
            written = write_range(writer, records(start, start + PER_FILE), start=start, end=start + PER_FILE)
            configs = tuple(self.configs.items())
            topic = ArchiveTopic(topic="orders", partitions=1, configs=configs, topic_id=self.topic_id)
            writer.finish([written], [topic], {})
        self.end = end

    @property
    def target(self) -> RetentionTarget:
        archive = open_retention(self.format, self.files)
        return RetentionTarget(format=self.format, files=self.files, archive=archive, collect_after_ms=0)

    def plan(self, cluster: Cluster | None = None, limits: RetentionLimits = NO_OTHER) -> ArchiveRetentionPlan:
        return plan_retention(self.target, limits, clock=FixedClock(), mirroring=MirrorSource(cluster=cluster))

    @property
    def indexed(self) -> IndexedArchive:
        retention = open_retention(self.format, self.files)
        assert isinstance(retention, IndexedRetention)
        return retention.archive

    @property
    def index(self) -> TopicIndex:
        return self.indexed.stored_indexes()["orders"]


@dataclass
class Cluster:
    """One that tells what a test makes it tell: by default of a topic that keeps all below `log_start` no more."""

    configs: Mapping[str, str]
    log_start: int = END
    topic_id: UUID | None = THE_ID
    is_there: PresenceState = PresenceState.THERE
    denied: OffsiteError | None = None
    failed: OffsiteError | None = None
    is_down: bool = False

    def presence(self, names: Collection[str]) -> Mapping[str, PresenceState]:
        if self.is_down:
            raise LeaderUnavailable("no broker answers")
        return dict.fromkeys(names, self.is_there)

    def topics(self, names: Collection[str] | None = None) -> Mapping[str, TopicMetadata]:
        return {
            name: TopicMetadata(name=name, topic_id=self.topic_id, internal=False, error_code=0, partitions=())
            for name in names or ()
        }

    def readable_topic_configs(self, names: Iterable[str], *, with_defaults: bool = False) -> TopicConfigs:
        assert with_defaults
        if self.denied:
            return TopicConfigs(configs={}, denied=dict.fromkeys(names, self.denied))
        return TopicConfigs(configs=dict.fromkeys(names, self.configs))

    def bounds(self, partitions: Iterable[TopicPartition]) -> ListedBounds:
        if self.failed:
            return ListedBounds(bounds={}, failed=dict.fromkeys(partitions, self.failed))
        bounds = LogBounds(start=self.log_start, end=100, leader_epoch=0)
        return ListedBounds(bounds=dict.fromkeys(partitions, bounds), failed={})


def starts(plan: ArchiveRetentionPlan) -> list[int]:
    return [each.file.start for each in plan.going]


def why_kept(plan: ArchiveRetentionPlan) -> str:
    (kept,) = plan.kept_files
    return kept.why


@pytest.mark.parametrize("kind", ["avro", "parquet", "jsonl"])
def test_without_a_cluster_what_the_archive_recorded_decides(kind: str) -> None:
    archive = Archive(OLD, kind)
    plan = archive.plan()
    assert starts(plan) == [0, 4]
    assert {each.why for each in plan.going} == {"older than retention.ms, 22 h 30 min"}
    assert why_kept(plan) == "younger than retention.ms, 22 h 30 min"
    done = carry_out(archive.target, plan, clock=FixedClock())
    assert len(done.deleted) == 2
    assert starts(archive.plan()) == []


@pytest.mark.parametrize(
    ("configs", "why"),
    [
        ({}, "a broker default: pass --bootstrap"),
        ({"retention.bytes": "1"}, "a broker default"),
        ({"retention.ms": "-1"}, "its topic has no retention limit"),
        ({"retention.ms": "-1", "retention.bytes": "1"}, "only with the cluster"),
        ({"cleanup.policy": "compact", **OLD}, "its topic is compacted"),
        ({"retention.ms": "soon"}, "a broker default"),
    ],
)
def test_what_the_archive_does_not_know_lets_nothing_go(configs: Mapping[str, str], why: str) -> None:
    plan = Archive(configs).plan()
    assert starts(plan) == []
    assert why in why_kept(plan)


def test_a_topic_that_is_compacted_and_deletes_is_mirrored() -> None:
    assert starts(Archive({"cleanup.policy": "compact,delete", **OLD}).plan()) == [0, 4]


def test_a_cluster_is_asked_for_its_defaults_and_only_what_it_let_go_goes() -> None:
    archive = Archive(OLD)
    assert starts(archive.plan(Cluster(OLD))) == [0, 4]
    plan = archive.plan(Cluster(OLD, log_start=7))
    assert starts(plan) == [0]
    assert why_kept(plan) == "the topic itself begins at offset 7"
    assert starts(archive.plan(Cluster(OLD, log_start=0))) == []
    assert starts(archive.plan(Cluster({}))) == []
    assert starts(Archive({"retention.ms": "1"}).plan(Cluster({"retention.ms": "-1"}))) == []


def test_a_default_that_no_archive_records_is_taken_for_kafkas_seven_days() -> None:
    archive = Archive({})
    assert starts(archive.plan(Cluster(OLD))) == []
    assert why_kept(archive.plan(Cluster(OLD))) == "younger than retention.ms, 7 d 0 h, at the time of the export"


def test_a_retention_that_is_shortened_at_the_source_does_not_empty_the_archive() -> None:
    """As seed 003 has it: somebody sets retention.ms=0. The next export notes that, and the topic is empty by then."""
    archive = Archive(OLD)
    emptied = Cluster({"retention.ms": "1"}, log_start=100)
    assert starts(archive.plan(emptied)) == [0, 4]
    archive.configs = {"retention.ms": "1"}
    archive.export_to(36)
    assert archive.index.earlier == (EarlierSettings(configs=tuple(OLD.items()), ends=((0, END),)),)
    for plan in (archive.plan(emptied), archive.plan()):
        assert starts(plan) == [0, 4]
        assert why_kept(plan) == "younger than retention.ms, 22 h 30 min, at the time of the export"
    archive.files.clock_ms += 4 * QUARTER_MS * 4  # and now what was exported before has come to its age
    later = plan_retention(
        archive.target, RetentionLimits(), clock=_At(archive.files.clock_ms), mirroring=MirrorSource()
    )
    assert starts(later) == [*range(0, 24, 4), 24, 28]


class _At(SystemClock):
    def __init__(self, at_ms: int) -> None:
        self._at_ms = at_ms

    def now_ms(self) -> int:
        return self._at_ms


@pytest.mark.parametrize("promised", [{"retention.ms": "-1"}, {"cleanup.policy": "compact"}])
def test_what_was_promised_for_ever_stays(promised: Mapping[str, str]) -> None:
    archive = Archive(promised)
    archive.configs = OLD
    archive.export_to(28)
    assert starts(archive.plan()) == starts(archive.plan(Cluster(OLD))) == []


UNREADABLE = KafkaNotAuthorized("no", hint="")
SICK = LeaderUnavailable("partition 0 has no leader")
DOUBTS: dict[str, tuple[Cluster, str]] = {
    "deleted": (Cluster(OLD, is_there=PresenceState.DELETED), "no topic of that name now"),
    "denied": (Cluster(OLD, is_there=PresenceState.DENIED), "may not describe the topic"),
    "unclear": (Cluster(OLD, is_there=PresenceState.UNCLEAR), "do not agree"),
    "made anew": (Cluster(OLD, topic_id=OTHER_ID), "it is another topic of the same name"),
    "no ids": (Cluster(OLD, topic_id=None), "the cluster does not give the id"),
    "settings": (Cluster(OLD, denied=UNREADABLE), "may not read the settings"),
    "no leader": (Cluster(OLD, failed=SICK), "partition 0 has no leader"),
    "compacted now": (Cluster({"cleanup.policy": "compact", **OLD}), "its topic is compacted"),
    "for ever now": (Cluster({"retention.ms": "-1", "retention.bytes": "-1"}), "no retention limit"),
}


@pytest.mark.parametrize("doubt", list(DOUBTS))
def test_what_the_cluster_does_not_say_for_certain_lets_nothing_go_and_is_told(doubt: str) -> None:
    cluster, why = DOUBTS[doubt]
    plan = Archive(OLD).plan(cluster)
    assert starts(plan) == []
    assert why in why_kept(plan)


def test_an_archive_that_does_not_say_which_topic_it_holds_keeps_all_of_it() -> None:
    plan = Archive(OLD, topic_id="").plan(Cluster(OLD))
    assert starts(plan) == []
    assert "did not record the id of the topic" in why_kept(plan)


def test_a_cluster_that_does_not_answer_lets_nothing_go() -> None:
    archive = Archive(OLD)
    changes = archive.files.changes
    with pytest.raises(KafkaUnavailable):
        archive.plan(Cluster(OLD, is_down=True))
    assert archive.files.changes == changes


def test_by_size_goes_what_the_topic_let_go_and_lies_before_its_last_bytes() -> None:
    archive = Archive({"retention.ms": "-1", "retention.bytes": "1"})
    sizes = [each.size_bytes for each in archive.index.files]
    two = {"retention.ms": "-1", "retention.bytes": str(sum(sizes[-2:]))}
    plan = archive.plan(Cluster(two))
    assert starts(plan) == [0, 4, 8, 12]
    assert plan.going[0].why.startswith("beyond retention.bytes, ")
    assert why_kept(plan).startswith("within retention.bytes")
    assert starts(archive.plan(Cluster(two, log_start=8))) == [0, 4]
    assert starts(archive.plan(Cluster({**two, "cleanup.policy": "compact,delete"}))) == [0, 4, 8, 12]


def test_the_newest_file_stays_and_max_bytes_goes_further() -> None:
    archive = Archive({"retention.ms": "1"})
    assert starts(archive.plan()) == [0, 4, 8, 12, 16]
    kept = Archive({"retention.ms": "-1"}).plan(limits=RetentionLimits(max_bytes=0))
    assert {each.why for each in kept.going} == {"beyond --max-bytes"}


def test_an_index_for_which_nothing_vouches_mirrors_nothing() -> None:
    archive = Archive(OLD)
    for info in list(archive.files.list()):
        if info.key.endswith(".json"):
            fields = json.loads(archive.files.get(info.key) or b"")
            kept = {name: value for name, value in fields.items() if name not in {DIGEST_KEY, *LATER}}
            archive.files.put(info.key, json.dumps(kept).encode())
    assert not archive.index.is_sealed
    assert "no digest confirms" in why_kept(archive.plan())


@pytest.mark.parametrize("kind", ["kafka-backup", "osodevops"])
def test_formats_that_do_not_say_what_they_hold_are_refused_by_name(kind: str) -> None:
    with pytest.raises(BadOption, match=f"--mirror cannot be used with {kind} archives"):
        plan_retention(made(kind).target, RetentionLimits(), clock=FixedClock(), mirroring=MirrorSource())


def test_two_rules_for_age_contradict_each_other() -> None:
    with pytest.raises(BadOption, match="--mirror and --keep-age"):
        Archive(OLD).plan(limits=RetentionLimits(keep_age_ms=1))


def test_an_index_is_what_it_was_until_a_retention_changes_and_remembers_sixteen_changes() -> None:
    archive = Archive(OLD)
    assert b"earlier" not in encode_index(archive.index)
    topic, index = archive.index.topic, archive.index
    assert index.with_written([], replace(topic, configs=(("segment.bytes", "1"), *OLD.items()))).earlier == ()
    ages = [5, 9, *range(10, 30)]
    for age_ms in ages:
        index = index.with_written([], replace(topic, configs=(("retention.ms", str(age_ms)),)))
    assert len(index.earlier) == 16
    assert dict(index.earlier[0].configs)["retention.ms"] == str(age_of(10)), "the longest of those that became one"
    assert parse_index(encode_index(index), topic="orders", layout=archive.indexed.layout) == index
    names: Sequence[str] = [each.name for each in index.files]
    assert index.without(names[:-1], at_ms=1).earlier == index.earlier, "of the newest file they all speak"
    first = replace(index, earlier=(EarlierSettings(configs=(), ends=((0, 8),)),))
    assert first.without(names[:2], at_ms=1).earlier == ()
