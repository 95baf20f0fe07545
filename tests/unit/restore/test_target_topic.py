"""What an existing topic cannot take, and what is only set aside while records are written."""

from __future__ import annotations

from dataclasses import replace

import pytest

from offsite.model.errors import OffsiteError, TargetMismatch, TargetNotEmpty
from offsite.model.options import RetentionMode
from offsite.repository.commit import TopicShape
from offsite.repository.restores.topic_settings import LeftOutSetting, TargetTopicSettings
from offsite.restore.preflight import (
    AT_ONCE,
    WHILE_RESTORING,
    BrokerDefaults,
    Circumstances,
    decide_settings,
    without_settings,
)
from offsite.restore.write.plan import TargetTopic, TopicRestore, target_problems

DAY_MS = 86_400_000
NOW_MS = 100 * DAY_MS


def source(*, partitions: int = 2, replication_factor: int = 1, **configs: str) -> TopicRestore:
    """A topic of ten records, 90 to 1 days old."""
    named = tuple(sorted((name.replace("_", "."), value) for name, value in configs.items()))
    return TopicRestore(
        source=TopicShape(
            topic="t",
            topic_id="id",
            partitions=partitions,
            replication_factor=replication_factor,
            configs=named,
        ),
        target="t",
        create=True,
        records=10,
        raw_bytes=2000,
        largest_batch_bytes=1000,
        largest_partition_bytes=1500,
        oldest_ms=10 * DAY_MS,
        timestamp_max_ms=99 * DAY_MS,
    )


FITS = TargetTopic(
    topic="t",
    partitions=2,
    records=0,
    max_batch_bytes=1000,
    oldest_taken_ms=10 * DAY_MS,
    newest_taken_ms=99 * DAY_MS,
    oldest_kept_ms=10 * DAY_MS,
    kept_bytes=1500,
    keeps_times=True,
    compacts=False,
)


def problems(target: TargetTopic, topic: TopicRestore, *, override: bool = False) -> list[OffsiteError]:
    return list(target_problems(target, topic, may_override_retention=override))


def given(*, brokers: int = 1, retention: RetentionMode = RetentionMode.HOLD) -> Circumstances:
    return Circumstances(brokers=brokers, now_ms=NOW_MS, retention=retention)


def created(topic: TopicRestore, circumstances: Circumstances | None = None) -> TargetTopicSettings:
    return decide_settings(topic, None, circumstances or given())


def test_a_target_that_just_fits_has_no_problem_and_nothing_is_set_aside() -> None:
    assert problems(FITS, source()) == []
    assert decide_settings(source(), FITS, given()).meanwhile == ()


LIMITS: dict[str, dict[str, int]] = {
    "another partition count": {"partitions": 3},
    "a smaller batch limit": {"max_batch_bytes": 999},
    "retention.ms": {"oldest_kept_ms": 10 * DAY_MS + 1},
    "retention.bytes": {"kept_bytes": 1499},
    "compacted, but the source topic is not": {"compacts": True},
}


@pytest.mark.parametrize("limit", LIMITS.values(), ids=LIMITS.keys())
def test_a_limit_that_stands_in_the_way_is_a_problem_with_a_way_out(limit: dict[str, int]) -> None:
    (problem,) = problems(replace(FITS, **limit), source())
    assert isinstance(problem, TargetMismatch)
    assert "t " in problem.message
    assert problem.hint


def test_all_problems_are_found_not_only_the_first() -> None:
    every = {name: value for limit in LIMITS.values() for name, value in limit.items()}
    assert len(problems(replace(FITS, **every), source())) == len(LIMITS)


def test_a_target_that_holds_records_is_left_alone() -> None:
    (problem,) = problems(replace(FITS, records=1), source())
    assert isinstance(problem, TargetNotEmpty)
    assert "--rename" in problem.hint


def test_a_mirror_of_another_cluster_is_refused_by_name() -> None:
    for target in (replace(FITS, mirror="dr"), replace(FITS, mirror="dr", records=1, partitions=9)):
        (problem,) = problems(target, source())
        assert "t exists and mirrors a topic of another cluster (mirror.name=dr)" in problem.message
        assert "end the mirroring" in problem.hint


ASIDE: dict[str, tuple[dict[str, int], str]] = {
    "no times so far ahead": ({"newest_taken_ms": 99 * DAY_MS - 1}, "message.timestamp.after.max.ms"),
    "no times so old": ({"oldest_taken_ms": 10 * DAY_MS + 1}, "message.timestamp.before.max.ms"),
    "times of its brokers": ({"keeps_times": False}, "message.timestamp.type"),
    "compaction": ({"compacts": True}, "cleanup.policy"),
}


@pytest.mark.parametrize(("limit", "setting"), ASIDE.values(), ids=ASIDE.keys())
def test_a_limit_on_records_is_set_aside_and_put_back(limit: dict[str, int], setting: str) -> None:
    topic, target = source(cleanup_policy="compact"), replace(FITS, **limit)
    assert problems(target, topic) == []
    for own, back in (((), None), (((setting, "strict"),), "strict")):
        settings = decide_settings(topic, replace(target, configs=own), given())
        assert settings.meanwhile == ((setting, WHILE_RESTORING[setting]),)
        assert settings.at_end == ((setting, back),)


def test_a_retention_that_would_begin_to_count_without_compaction_is_set_aside_with_it() -> None:
    own = (("cleanup.policy", "compact"), ("retention.ms", "1000"))
    compacted = replace(FITS, compacts=True, deletes=False, configs=own)
    decided = decide_settings(source(cleanup_policy="compact"), compacted, given())
    assert dict(decided.meanwhile) == {"cleanup.policy": "delete", "retention.bytes": "-1", "retention.ms": "-1"}
    assert dict(decided.at_end) == {"cleanup.policy": "compact", "retention.bytes": None, "retention.ms": "1000"}


def test_a_retention_is_set_aside_only_when_that_was_asked() -> None:
    strict = replace(
        FITS, oldest_kept_ms=NOW_MS, kept_bytes=10, configs=(("retention.bytes", "10"), ("retention.ms", "0"))
    )
    assert len(problems(strict, source())) == 2
    assert problems(strict, source(), override=True) == []
    settings = decide_settings(source(), strict, given(retention=RetentionMode.OVERRIDE))
    assert settings.meanwhile == (("retention.bytes", "-1"), ("retention.ms", "-1"))
    assert settings.at_end == strict.configs


def test_a_limit_on_expanded_records_is_set_aside_where_it_was_set() -> None:
    """Since Kafka 4.4 brokers refuse larger records than a topic allows, and those of a backup may be older."""
    name, most = "max.decompressed.message.bytes", "2147483647"
    existing = decide_settings(source(), replace(FITS, configs=((name, "1000"),)), given())
    assert (existing.meanwhile, existing.at_end) == (((name, most),), ((name, "1000"),))
    made = created(source(max_decompressed_message_bytes="1000"))
    assert (dict(made.meanwhile)[name], dict(made.at_end)[name]) == (most, "1000")


def test_a_created_topic_judges_no_record_and_has_the_source_s_settings_at_the_end() -> None:
    settings = created(source(cleanup_policy="compact,delete", segment_bytes="1048576"))
    assert dict(settings.meanwhile) == WHILE_RESTORING
    assert dict(settings.configs) == {"cleanup.policy": "compact,delete", "segment.bytes": "1048576"}
    at_end = dict(settings.at_end)
    assert at_end.pop("cleanup.policy") == "compact,delete"
    assert set(at_end.values()) == {None}
    assert settings.left_out == ()


def test_a_retention_that_would_delete_at_once_is_held_back_or_overridden() -> None:
    topic = source(retention_ms=str(89 * DAY_MS), retention_bytes="1499")
    held = created(topic)
    assert held.left_out == (
        LeftOutSetting(setting="retention.ms", value=str(89 * DAY_MS), reason=AT_ONCE),
        LeftOutSetting(setting="retention.bytes", value="1499", reason=AT_ONCE),
    )
    assert dict(held.at_end)["retention.ms"] == dict(held.at_end)["retention.bytes"] == "-1"
    overridden = created(topic, given(retention=RetentionMode.OVERRIDE))
    assert overridden.left_out == ()
    assert dict(overridden.at_end)["retention.ms"] == str(89 * DAY_MS)
    assert dict(overridden.meanwhile)["retention.ms"] == "-1"


@pytest.mark.parametrize(
    "configs", [{"retention_ms": str(90 * DAY_MS)}, {"retention_ms": "0", "cleanup_policy": "compact"}, {}]
)
def test_a_retention_that_deletes_nothing_is_not_held_back(configs: dict[str, str]) -> None:
    assert created(source(**configs)).left_out == ()


def test_what_a_topic_has_from_the_target_s_brokers_may_delete_as_well() -> None:
    strict = replace(given(), defaults=BrokerDefaults(retention_ms=DAY_MS, retention_bytes=10))
    held = created(source(), strict)
    assert [(each.setting, each.value) for each in held.left_out] == [("retention.ms", ""), ("retention.bytes", "")]
    assert dict(held.at_end)["retention.ms"] == "-1"
    for own in ({"cleanup_policy": "compact"}, {"retention_ms": "-1", "retention_bytes": "-1"}):
        assert created(source(**own), strict).left_out == ()
    compacting = replace(given(), defaults=BrokerDefaults(retention_ms=DAY_MS, deletes=False))
    assert created(source(), compacting).left_out == ()


def test_records_can_be_written_where_brokers_want_more_replicas_than_there_are() -> None:
    settings = created(source(), replace(given(), defaults=BrokerDefaults(min_in_sync=2)))
    assert dict(settings.meanwhile)["min.insync.replicas"] == "1"
    assert dict(settings.at_end)["min.insync.replicas"] is None


def test_a_topic_whose_replicas_nobody_knows_gets_the_brokers_default() -> None:
    defaults = BrokerDefaults(replication_factor=3)
    unknown = source(replication_factor=-1)
    assert created(unknown, replace(given(brokers=5), defaults=defaults)).replication_factor == 3
    assert created(unknown, replace(given(brokers=2), defaults=defaults)).replication_factor == 2
    assert created(unknown).replication_factor == 1


def test_replicas_and_those_in_sync_are_as_many_as_there_are_brokers() -> None:
    topic = source(replication_factor=3, min_insync_replicas="2")
    alone = created(topic)
    assert (alone.replication_factor, dict(alone.configs)) == (1, {"min.insync.replicas": "1"})
    assert [each.setting for each in alone.left_out] == ["min.insync.replicas"]
    enough = created(topic, given(brokers=5))
    assert (enough.replication_factor, dict(enough.configs)) == (3, {"min.insync.replicas": "2"})
    assert enough.left_out == ()


def test_settings_that_name_brokers_of_the_source_stay_behind() -> None:
    settings = created(source(leader_replication_throttled_replicas="0:1"))
    assert settings.configs == ()
    assert [each.setting for each in settings.left_out] == ["leader.replication.throttled.replicas"]


def test_a_topic_that_was_a_mirror_is_made_as_a_topic_of_its_own() -> None:
    """Brokers would refuse the records of the restore."""
    settings = created(source(mirror_name="dr"))
    assert "mirror.name" not in dict(settings.configs)
    assert [omitted.setting for omitted in settings.left_out] == ["mirror.name"]


def test_a_large_batch_has_room_while_records_are_written() -> None:
    topic = replace(source(), largest_batch_bytes=2_000_000)
    assert int(dict(created(topic).meanwhile)["max.message.bytes"]) > 2_000_000
    assert dict(created(topic).at_end)["max.message.bytes"] == "2000000", "the target's brokers take less"
    generous = replace(given(), defaults=BrokerDefaults(max_batch_bytes=5_000_000))
    assert "max.message.bytes" not in dict(created(topic, generous).meanwhile)
    strict = replace(given(), defaults=BrokerDefaults(max_batch_bytes=999))
    assert int(dict(created(source(), strict).meanwhile)["max.message.bytes"]) > 1000
    own = replace(source(max_message_bytes="2000000"), largest_batch_bytes=2_000_000)
    assert dict(created(own).at_end)["max.message.bytes"] == "2000000"


def test_what_the_target_refuses_is_left_out_of_everything_and_named() -> None:
    settings = without_settings(
        created(source(shiny="1", cleanup_policy="compact")),
        {"shiny": "unknown", "message.timestamp.after.max.ms": "unknown"},
    )
    assert dict(settings.configs) == {"cleanup.policy": "compact"}
    for names in (dict(settings.meanwhile), dict(settings.at_end)):
        assert "message.timestamp.after.max.ms" not in names
        assert "cleanup.policy" in names
    assert settings.left_out == (LeftOutSetting(setting="shiny", value="1", reason="unknown"),)


@pytest.mark.parametrize("odd", ["", "many", "9" * 5000, "--1"])
def test_settings_that_are_no_numbers_are_as_if_not_set(odd: str) -> None:
    topic = source(retention_ms=odd, retention_bytes=odd, min_insync_replicas=odd, max_message_bytes=odd)
    assert created(topic).left_out == created(source()).left_out
