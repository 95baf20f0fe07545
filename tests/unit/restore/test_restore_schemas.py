"""The schemas topic: taken along, first in a plan, written before the others, and never over one that is in use."""

from __future__ import annotations

from dataclasses import replace

import pytest

from offsite.backup.source import decide_schemas_topic, schemas_options, with_schemas
from offsite.log.range import TopicPartition
from offsite.model.errors import BackupExists
from offsite.model.selection import parse_selection
from offsite.model.topic_choices import PartitionCounts, parse_partition_counts, parse_renames
from offsite.repository.descriptor import BackupDescriptor
from offsite.restore.plan import IN_USE, without_live_schemas
from offsite.restore.write.plan import RestorePlan, TargetTopic, plan_restore
from offsite.restore.write.translate import RestoreTask
from offsite.restore.write_jobs import order_schemas_first
from tests.unit.restore.test_restore_plan import backup, selected, shape, target

REGISTRY = "registry"
IN_USE_THERE: TargetTopic = replace(target(), topic=REGISTRY, records=3)


def plan(*, renames: str = "", counts: PartitionCounts | None = None) -> RestorePlan:
    schemas = replace(shape(REGISTRY, partitions=1, topic_id="id-2"), holds_schemas=True)
    state = backup(shape("a"), schemas, shape("z", topic_id="id-3"))
    return plan_restore(selected(state), renames=parse_renames(renames.split(",")), existing=(), counts=counts)


def names(of: RestorePlan) -> list[str]:
    return [topic.source.topic for topic in of.topics]


def test_schemas_are_the_first_topic_and_are_written_before_the_others_begin() -> None:
    tasks = [RestoreTask(partition=each, target_start=0) for each in plan().partitions]
    assert names(plan()) == [REGISTRY, "a", "z"]
    first, second = order_schemas_first(tasks, plan())
    assert [task.partition.target.topic for task in first] == [REGISTRY]
    assert [task.partition.target for task in second] == [TopicPartition(topic=t, partition=0) for t in ("a", "z")]
    assert order_schemas_first(second, plan()) == [second]


def test_a_count_for_all_topics_leaves_schemas_in_their_one_partition() -> None:
    for counts, wanted in (("12", None), (f"12,{REGISTRY}=3", 3)):
        (schemas, *_) = plan(counts=parse_partition_counts(counts.split(","))).topics
        assert schemas.repartition == wanted


def test_schemas_in_use_are_left_out_of_the_plan_with_all_that_belongs_to_them() -> None:
    left = without_live_schemas(plan(), parse_selection(["*"]), [IN_USE_THERE], None)
    assert names(left) == ["a", "z"]
    assert {each.chain.source.topic for each in left.partitions} == {"a", "z"}
    assert left.skipped == ((REGISTRY, IN_USE),)


@pytest.mark.parametrize(
    ("topics", "renames", "existing"),
    [
        ([f"{REGISTRY}", "a"], "", [IN_USE_THERE]),
        (["*"], f"{REGISTRY}=elsewhere", [IN_USE_THERE]),
        (["*"], "", [replace(IN_USE_THERE, records=0)]),
        (["*"], "", []),
    ],
    ids=["named", "renamed", "empty", "not there"],
)
def test_schemas_stay_in_the_plan(topics: list[str], renames: str, existing: list[TargetTopic]) -> None:
    whole = plan(renames=renames)
    assert without_live_schemas(whole, parse_selection(topics), existing, None) == whole


def test_the_schemas_topic_goes_along_where_there_is_one_that_nobody_excluded() -> None:
    known = ["a", REGISTRY]
    everything, without = parse_selection(["a"]), parse_selection(["a"], ["reg*"])
    assert with_schemas(["a"], REGISTRY, existing=known, selection=everything) == ("a", REGISTRY)
    assert with_schemas(["a"], REGISTRY, existing=known, selection=without) == ("a",)
    assert with_schemas(["a"], REGISTRY, existing=["a"], selection=everything) == ("a",)
    assert with_schemas(["a"], "", existing=known, selection=everything) == ("a",)


def test_the_first_run_decides_where_schemas_are() -> None:
    for asked, topic in ((None, "_schemas"), ("", ""), (REGISTRY, REGISTRY)):
        assert decide_schemas_topic(asked, None) == topic
        known = BackupDescriptor(
            name="b",
            cluster_id="c",
            selection=parse_selection(["a"]),
            created_at_ms=0,
            options=schemas_options(topic),
        )
        assert decide_schemas_topic(None, known) == decide_schemas_topic(topic, known) == topic
        with pytest.raises(BackupExists):
            decide_schemas_topic("another", known)
