"""A target that would refuse some of the records is refused before the first: never half a restore."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from offsite.demo.data import BASE_MS, DAY_MS, DemoMessage
from offsite.engine.runner import Runner
from offsite.kafka.protocol.metadata import NewTopic
from offsite.model.clock import SystemClock
from offsite.model.errors import RestoreRefused, TargetMismatch, TargetNotEmpty
from offsite.model.selection import parse_selection
from offsite.model.topic_choices import parse_renames
from offsite.model.units import MIB
from offsite.restore.plan import prepare_restore
from offsite.restore.plan_report import report_plan
from offsite.restore.request import RestoreRequest
from offsite.restore.run import run_restore
from offsite.restore.target_topics import create_topics
from offsite.sandbox import SandboxSettings
from tests.begun_restores import put_own_record
from tests.conftest import StartSandbox
from tests.inline_runner import CrossingRunner
from tests.integration.e2e.site import Site, new_name
from tests.integration.kafka.cluster import Cluster

LARGE_BYTES = int(6.9 * MIB)
LARGE_LIMIT = str(8 * MIB)


@pytest.fixture(scope="module")
def spark() -> Runner:
    """None: what a target refuses is decided before the tasks, and by brokers."""
    return CrossingRunner()


def large() -> DemoMessage:
    return DemoMessage(key=b"k", value=random.Random(3).randbytes(LARGE_BYTES), timestamp_ms=BASE_MS)


def test_a_record_of_6_9_mb_comes_back_into_a_created_topic(site: Site) -> None:
    topic = site.make_topic(max_message_bytes=LARGE_LIMIT)
    site.produce(topic, [large()], message_max_bytes=8 * MIB)
    site.back_up(topic)
    site.assert_comes_back(topic)


def test_a_limit_the_source_no_longer_has_on_the_topic_is_kept_where_the_target_needs_it(site: Site) -> None:
    topic = site.make_topic(max_message_bytes=LARGE_LIMIT)
    site.produce(topic, [large()], message_max_bytes=8 * MIB)
    site.cluster.admin.alter_topic_configs({topic: {"max.message.bytes": None}})
    site.back_up(topic)
    target = new_name(topic)
    site.restore(topic, target)
    assert int(site.cluster.admin.topic_configs([target])[target]["max.message.bytes"]) > LARGE_BYTES


SMALL = DemoMessage(key=b"k", value=b"v", timestamp_ms=BASE_MS)
FAR_AHEAD = DemoMessage(key=b"k", value=b"v", timestamp_ms=4_102_444_800_000)
TOO_STRICT: dict[str, tuple[dict[str, str], DemoMessage]] = {
    "max.message.bytes": ({}, large()),
    "cleanup.policy": ({"cleanup.policy": "compact"}, DemoMessage(key=None, value=b"v", timestamp_ms=BASE_MS)),
    "retention.ms": ({"retention.ms": "1000"}, SMALL),
    "retention.bytes": ({"retention.bytes": "50"}, SMALL),
}


@pytest.mark.parametrize(("configs", "message"), TOO_STRICT.values(), ids=TOO_STRICT.keys())
def test_an_empty_target_with_a_stricter_setting_is_refused_before_anything_is_written(
    site: Site, configs: dict[str, str], message: DemoMessage
) -> None:
    topic = site.make_topic(max_message_bytes=LARGE_LIMIT, message_timestamp_after_max_ms=str(2**63 - 1))
    site.produce(topic, [SMALL, message], message_max_bytes=8 * MIB)
    site.back_up(topic)
    target = make_target(site, topic, configs=configs)
    with pytest.raises(TargetMismatch) as refusal:
        site.restore(topic, target)
    assert target in refusal.value.message
    assert refusal.value.hint
    assert site.cluster.end(target) == 0
    site.cluster.assert_configs(target, configs)


def test_all_that_stands_in_the_way_is_told_at_once(site: Site) -> None:
    topic = site.make_topic(max_message_bytes=LARGE_LIMIT)
    site.produce(topic, [large()], message_max_bytes=8 * MIB)
    site.back_up(topic)
    target = make_target(site, topic, partitions=2, configs={"retention.ms": "1000"})
    with pytest.raises(TargetMismatch) as refusal:
        site.prepare(topic, target)
    for reason in ("2 partitions", "max.message.bytes", "retention.ms"):
        assert reason in refusal.value.message


ASIDE: dict[str, tuple[dict[str, str], DemoMessage]] = {
    "message.timestamp.after.max.ms": ({}, FAR_AHEAD),
    "message.timestamp.before.max.ms": ({"message.timestamp.before.max.ms": str(DAY_MS)}, SMALL),
    "message.timestamp.type": ({"message.timestamp.type": "LogAppendTime"}, SMALL),
}


@pytest.mark.parametrize(("configs", "message"), ASIDE.values(), ids=ASIDE.keys())
def test_what_an_empty_target_thinks_of_times_is_set_aside_and_put_back(
    site: Site, configs: dict[str, str], message: DemoMessage
) -> None:
    topic = site.make_topic(message_timestamp_after_max_ms=str(2**63 - 1))
    site.produce(topic, [SMALL, message])
    site.back_up(topic)
    target = make_target(site, topic, configs=configs)
    site.restore(topic, target)
    site.assert_same(site.read(topic), site.read(target))
    site.cluster.assert_configs(target, configs)


def test_a_log_append_time_topic_comes_back_with_its_times_and_is_one_again(site: Site) -> None:
    topic = site.make_topic(message_timestamp_type="LogAppendTime")
    site.produce(topic, [SMALL, FAR_AHEAD])
    site.back_up(topic)
    target = new_name(topic)
    site.restore(topic, target)
    (before,), (after,) = site.read(topic).values(), site.read(target).values()
    assert [record.timestamp_ms for record in before] == [record.timestamp_ms for record in after]
    site.cluster.assert_configs(target, {"message.timestamp.type": "LogAppendTime"})


def test_compaction_is_set_aside_so_that_no_record_goes_before_all_are_there(site: Site) -> None:
    topic = site.make_topic(cleanup_policy="compact")
    site.produce(topic, [SMALL, SMALL])
    site.back_up(topic)
    target = make_target(site, topic, configs={"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0"})
    prepared = site.prepare(topic, target)
    assert dict(prepared.record.settings[0].meanwhile) == {
        "cleanup.policy": "delete",
        "retention.bytes": "-1",
        "retention.ms": "-1",
    }
    assert site.restore(topic, target).verified
    site.cluster.assert_config(target, "cleanup.policy", "compact")


def test_settings_that_were_set_aside_are_put_back_by_the_run_that_finishes(site: Site) -> None:
    topic = site.make_topic()
    site.produce(topic, [SMALL])
    site.back_up(topic)
    configs = {"message.timestamp.type": "LogAppendTime", "retention.ms": str(10 * 365 * DAY_MS)}
    target = make_target(site, topic, configs=configs)
    prepared = site.prepare(topic, target)
    put_own_record(prepared.backup.store, prepared.layout, prepared.record)
    create_topics(site.cluster.admin, prepared.record.settings)  # and here the first run is killed
    site.cluster.assert_config(target, "message.timestamp.type", "CreateTime")
    assert site.restore(topic, target).resumed
    site.assert_same(site.read(topic), site.read(target))
    site.cluster.assert_configs(target, configs)


def test_a_restore_killed_before_its_report_ends_in_the_same_state(site: Site) -> None:
    topic = site.make_topic(cleanup_policy="compact", message_timestamp_after_max_ms="60000")
    site.produce(topic, [SMALL, SMALL])
    site.back_up(topic)
    target = new_name(topic)
    prepared = site.prepare(topic, target)
    run_restore(prepared, cluster=site.cluster, runner=site.spark)
    site.backup.store.delete(prepared.layout.report_key)
    again = site.restore(topic, target)
    assert (again.restore, again.resumed, again.verified) == (prepared.record.restore, True, True)
    site.assert_same(site.read(topic), site.read(target))
    admin = site.cluster.admin
    assert admin.topic_configs([target])[target] == admin.topic_configs([topic])[topic]


def test_reasons_of_several_kinds_are_told_in_one_refusal(site: Site) -> None:
    full, narrow = site.make_topic(), site.make_topic()
    for topic in (full, narrow):
        site.produce(topic, [SMALL])
    site.back_up(full, narrow)
    wide = make_target(site, narrow, partitions=2)
    request = RestoreRequest(selection=parse_selection([full, narrow]), renames=parse_renames([f"{narrow}={wide}"]))
    with pytest.raises(RestoreRefused) as refusal:
        prepare_restore(site.backup, site.cluster.admin, request)
    assert f"{full} exists on the target and holds 1 record" in refusal.value.message
    assert f"{wide} exists with 2 partitions" in refusal.value.message
    assert refusal.value.exit_code == TargetMismatch.exit_code


@pytest.mark.parametrize("partitions", [1, 3], ids=["fewer", "more"])
def test_an_empty_target_with_another_partition_count_is_refused(site: Site, partitions: int) -> None:
    topic = site.make_topic(partitions=2)
    site.back_up(topic)
    with pytest.raises(TargetMismatch, match=f"with {partitions} partitions?, but the restore needs 2"):
        site.restore(topic, make_target(site, topic, partitions=partitions))


def test_an_empty_target_that_fits_is_filled_and_keeps_its_settings(site: Site) -> None:
    topic = site.make_topic()
    site.produce(topic, [DemoMessage(key=b"k", value=b"v", timestamp_ms=BASE_MS)])
    site.back_up(topic)
    target = make_target(site, topic, configs={"segment.bytes": str(2 * MIB)})
    site.restore(topic, target)
    site.assert_same(site.read(topic), site.read(target))
    site.cluster.assert_configs(target, {"segment.bytes": str(2 * MIB)})


def restored_twice(site: Site, topic: str, target: str) -> None:
    site.restore(topic, target)


def written_by_others(site: Site, topic: str, target: str) -> None:
    site.produce(make_target(site, topic, name=target), [DemoMessage(key=None, value=b"foreign", timestamp_ms=BASE_MS)])


@pytest.mark.parametrize("fill", [restored_twice, written_by_others])
def test_a_target_that_holds_records_is_refused_and_left_alone(
    site: Site, fill: Callable[[Site, str, str], None]
) -> None:
    topic = site.make_topic()
    site.produce(topic, [DemoMessage(key=b"k", value=b"v", timestamp_ms=BASE_MS)])
    site.back_up(topic)
    target = new_name(topic)
    fill(site, topic, target)
    before = site.read(target)
    with pytest.raises(TargetNotEmpty):
        site.restore(topic, target)
    site.assert_same(before, site.read(target))


def make_target(
    site: Site, topic: str, *, name: str = "", partitions: int = 1, configs: dict[str, str] | None = None
) -> str:
    target = name or new_name(topic)
    site.cluster.admin.create_topics([NewTopic(name=target, partitions=partitions, configs=configs or {})])
    return target


def test_a_retention_that_would_delete_restored_records_is_held_back_and_named(site: Site) -> None:
    topic = site.make_topic(retention_ms=str(DAY_MS))
    now_ms = SystemClock().now_ms()  # the newest record keeps the source's own retention from taking the old one
    site.produce(topic, [DemoMessage(key=b"k", value=b"v", timestamp_ms=time_ms) for time_ms in (BASE_MS, now_ms)])
    site.back_up(topic)
    target = new_name(topic)
    result = site.restore(topic, target)
    assert result.held_back == ((target, "retention.ms", str(DAY_MS)),)
    site.cluster.assert_configs(target, {"retention.ms": "-1"})


@pytest.mark.parametrize("exists", [False, True], ids=["created", "existing"])
def test_a_retention_may_be_overridden_while_records_are_written(site: Site, exists: bool) -> None:
    topic = site.make_topic(retention_ms=str(DAY_MS))
    now_ms = SystemClock().now_ms()
    site.produce(topic, [DemoMessage(key=b"k", value=b"v", timestamp_ms=time_ms) for time_ms in (BASE_MS, now_ms)])
    site.back_up(topic)
    target = make_target(site, topic, configs={"retention.ms": "3600000"}) if exists else new_name(topic)
    request = RestoreRequest(
        selection=parse_selection([topic]), renames=parse_renames([f"{topic}={target}"]), retention="override"
    )
    prepared = prepare_restore(site.backup, site.cluster.admin, request)
    result = run_restore(prepared, cluster=site.cluster, runner=site.spark)
    assert (result.records, result.verified, result.held_back) == (2, True, ())
    wanted = "3600000" if exists else str(DAY_MS)
    site.cluster.assert_configs(target, {"retention.ms": wanted})


def test_a_target_of_strict_brokers_takes_what_came_back_and_keeps_it(site: Site, start_sandbox: StartSandbox) -> None:
    """Topics have most of their settings from brokers: those here delete after a day, want two replicas in sync, and
    take small batches."""
    topic = site.make_topic()
    wide = DemoMessage(key=b"k", value=random.Random(5).randbytes(80_000), timestamp_ms=SystemClock().now_ms())
    site.produce(topic, [SMALL, wide])
    site.back_up(topic)
    strict = {"log.retention.ms": str(DAY_MS), "min.insync.replicas": "2", "message.max.bytes": "50000"}
    _, info = start_sandbox(settings=SandboxSettings(properties=strict))
    target = Cluster(info.bootstrap)
    prepared = prepare_restore(site.backup, target.admin, RestoreRequest(selection=parse_selection([topic])))
    result = run_restore(prepared, cluster=target, runner=site.spark)
    assert (result.verified, result.held_back) == (True, ((topic, "retention.ms", ""),))
    settings = dict(target.admin.topic_configs([topic])[topic])
    assert int(settings.pop("max.message.bytes")) > len(wide.value or b"")
    assert settings == {"retention.ms": "-1"}
    shown = [note for note in report_plan(prepared).notes if "retention.ms" in note]
    assert shown == [
        f"{topic} will not get retention.ms=(the brokers' default): it would delete restored records immediately"
    ]
