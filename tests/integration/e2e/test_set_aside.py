"""A restore that does not end well leaves nobody's settings behind: existing topics have their own again, at once or by
the next run, and what is still set aside is named."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import pytest

from offsite.demo.data import BASE_MS, DAY_MS, DemoMessage
from offsite.engine.runner import Done, Failed, OnProgress, Runner
from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.cluster import Cluster
from offsite.kafka.protocol.metadata import NewTopic
from offsite.log.range import TopicPartition
from offsite.model.errors import Damaged, KafkaUnreachable, OffsiteError, TargetMismatch
from offsite.model.selection import parse_selection
from offsite.model.topic_choices import parse_renames
from offsite.overview.status import read_status
from offsite.repository.restores.topic_settings import SetAsideSettings, get_aside
from offsite.restore.plan import PlannedRestore, prepare_restore
from offsite.restore.plan_report import report_plan
from offsite.restore.request import RestoreRequest
from offsite.restore.result import RestoreResult
from offsite.restore.run import run_restore
from offsite.restore.target_topics import create_topics
from tests.begun_restores import put_own_aside, put_own_record
from tests.integration.e2e.site import Site, new_name, values
from tests.integration.kafka.cluster import Cluster as Broker
from tests.integration.kafka.cluster import wait_until
from tests.passing_runner import PassingRunner, ResultT, TaskT, interrupt_after
from tests.processes import is_alive
from tests.spark_tasks import go_on_when_told

ROOT = Path(__file__).parents[3]
HALF = 50
OWN = {"message.timestamp.type": "LogAppendTime", "cleanup.policy": "compact", "retention.ms": "3600000"}
ALL = [b"record %d" % n for n in range(2 * HALF)]
KEPT = "message.timestamp.type=CreateTime instead of LogAppendTime"


@dataclass(frozen=True, slots=True, kw_only=True)
class Halves:
    """A topic in two segments, of which the second can be taken away."""

    site: Site
    topic: str

    @property
    def cluster(self) -> Broker:
        return self.site.cluster

    @property
    def admin(self) -> ClusterAdmin:
        return self.cluster.admin

    def target(self, configs: Mapping[str, str] = OWN) -> str:
        """An empty topic with settings of its own that are in the way."""
        name = new_name(self.topic)
        self.admin.create_topics([NewTopic(name=name, partitions=1, configs=dict(configs))])
        self.cluster.assert_configs(name, configs)
        return name

    def prepare(self, target: str, **request: object) -> PlannedRestore:
        wanted = RestoreRequest(
            selection=parse_selection([self.topic]),
            renames=parse_renames([f"{self.topic}={target}"]),
            retention="override",
            **request,  # type: ignore[arg-type]
        )
        return prepare_restore(self.site.backup, self.admin, wanted)

    def run(self, prepared: PlannedRestore, *, runner: PassingRunner | None = None) -> RestoreResult:
        kafka = self.site.cluster.config
        return run_restore(prepared, cluster=Cluster(config=kafka, admin=self.admin), runner=runner or self.site.spark)

    def fail(self, target: str, **request: object) -> Damaged:
        """A half of the records at most is written, then the other half cannot be read."""
        key = list(self.site.backup.state().all_segments())[-1].key
        segment = Path(self.site.repository.store.url) / key
        content = segment.read_bytes()
        segment.write_bytes(content[:-7])
        with pytest.raises(Damaged) as failure:
            self.run(self.prepare(target, **request))
        segment.write_bytes(content)
        assert self.site.cluster.end(target) < 2 * HALF
        return failure.value

    def kill(self, target: str) -> PlannedRestore:
        """As far as a run comes that is killed before its first record."""
        prepared = self.prepare(target)
        store, layout, record = prepared.backup.store, prepared.layout, prepared.record
        put_own_record(store, layout, record)
        asides = (SetAsideSettings(topic=s.topic, meanwhile=s.meanwhile, originals=s.at_end) for s in record.settings)
        put_own_aside(store, layout, tuple(asides))
        create_topics(self.admin, record.settings)
        wait_until(lambda: self.settings(target) != OWN)
        return prepared

    def settings(self, target: str) -> dict[str, str]:
        return self.cluster.configs(target)


@pytest.fixture
def halves(site: Site) -> Halves:
    topic = site.make_topic(cleanup_policy="compact,delete", retention_ms="-1")
    for start in (0, HALF):
        messages = [
            DemoMessage(key=b"%d" % n, value=b"record %d" % n, timestamp_ms=BASE_MS) for n in range(start, start + HALF)
        ]
        site.produce(topic, messages)
        site.back_up(*() if start else (topic,))
    return Halves(site=site, topic=topic)


@pytest.mark.parametrize("offsets", ["translate", "preserve"])
def test_a_restore_that_fails_gives_an_existing_topic_its_own_settings_back(halves: Halves, offsets: str) -> None:
    target = halves.target()
    error = halves.fail(target, offsets=offsets)
    halves.cluster.assert_configs(target, OWN)
    assert f"{target} got their own settings back" in error.hint
    result = halves.run(halves.prepare(target, offsets=offsets))
    assert (result.resumed, result.verified) == (True, True)
    assert values(halves.site.read(target)) == ALL
    halves.cluster.assert_configs(target, OWN)


def test_what_a_restore_made_keeps_what_protects_it_and_is_named(halves: Halves) -> None:
    target = new_name(halves.topic)
    error = halves.fail(target)
    halves.cluster.assert_config(target, "retention.ms", "-1")
    assert f"{target}, created by this restore, keeps cleanup.policy=delete, " in error.hint
    assert halves.run(halves.prepare(target)).verified
    halves.cluster.assert_configs(target, halves.settings(halves.topic))


class InterruptedRunner(PassingRunner):
    def run_all(
        self, tasks: Sequence[TaskT], function: Callable[[TaskT], ResultT], *, on_progress: OnProgress | None = None
    ) -> NoReturn:
        raise KeyboardInterrupt


def test_an_interrupted_restore_puts_them_back_too(halves: Halves) -> None:
    target = halves.target()
    with pytest.raises(KeyboardInterrupt) as interrupt:
        halves.run(halves.prepare(target), runner=InterruptedRunner(halves.site.spark))
    halves.cluster.assert_configs(target, OWN)
    assert interrupt.value.__notes__ == [f"{target} got their own settings back"]


class HeldUpRunner(PassingRunner):
    """Workers begin to write when they are told to; Ctrl-C comes before that."""

    def __init__(self, inner: Runner, marker: Path) -> None:
        super().__init__(inner)
        self._marker = marker

    def run_all(
        self, tasks: Sequence[TaskT], function: Callable[[TaskT], ResultT], *, on_progress: OnProgress | None = None
    ) -> list[Done[ResultT] | Failed]:
        held_up: Any = partial(go_on_when_told, function=function, marker=self._marker)
        return super().run_all(tasks, held_up, on_progress=interrupt_after(self._marker))


@pytest.mark.soak
def test_nothing_is_written_any_more_when_an_interrupted_restore_puts_them_back(
    halves: Halves, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the records that come later would be dated by the broker."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # workers that find what these tests make them do
    halves.site.spark.close()
    target, marker = halves.target(), tmp_path / "started"
    with pytest.raises(KeyboardInterrupt) as interrupt:
        halves.run(halves.prepare(target), runner=HeldUpRunner(halves.site.spark, marker))
    halves.cluster.assert_configs(target, OWN)
    assert interrupt.value.__notes__ == [f"{target} got their own settings back"]
    marker.with_suffix(".go").touch()
    wait_until(lambda: not is_alive(int(marker.read_text())))
    assert halves.site.cluster.end(target) == 0
    assert halves.run(halves.prepare(target)).verified
    halves.cluster.assert_configs(target, OWN)


class RefusingAdmin(ClusterAdmin):
    """Sets settings aside, and cannot reach the cluster afterwards."""

    altered = False

    def alter_topic_configs(self, changes: object) -> None:
        if self.altered:
            raise KafkaUnreachable("the cluster is gone")
        self.altered = True
        super().alter_topic_configs(changes)  # type: ignore[arg-type]


def test_what_cannot_be_put_back_is_named_with_the_command_that_does_it(halves: Halves) -> None:
    target = halves.target()
    admin = RefusingAdmin(halves.site.cluster.router)
    prepared = halves.prepare(target)
    with pytest.raises(OffsiteError) as failure:
        run_restore(prepared, cluster=Cluster(config=halves.site.cluster.config, admin=admin), runner=halves.site.spark)
    assert KEPT in failure.value.hint
    (command,) = (part for part in failure.value.hint.split("(") if part.startswith("kafka-configs.sh"))
    assert f"--bootstrap-server {halves.site.cluster.bootstrap} --alter --topic {target} --add-config" in command
    assert "message.timestamp.type=LogAppendTime" in command
    assert halves.run(halves.prepare(target)).verified
    halves.cluster.assert_configs(target, OWN)


def test_a_killed_restore_is_named_until_the_same_command_puts_them_back(halves: Halves) -> None:
    target = halves.target()
    killed = halves.kill(target)
    (status,) = read_status(halves.site.repository).backups
    assert status.safe
    assert killed.record.restore in status.notes[0]
    assert KEPT in status.notes[0]
    elsewhere = report_plan(halves.prepare(new_name(halves.topic)))
    assert [note for note in elsewhere.notes if killed.record.restore in note and KEPT in note]
    assert halves.run(halves.prepare(target)).resumed
    halves.cluster.assert_configs(target, OWN)
    (status,) = read_status(halves.site.repository).backups
    assert status.notes == ()


def test_another_restore_does_not_take_what_was_set_aside_for_the_topic_s_own(halves: Halves) -> None:
    target = halves.target()
    killed = halves.kill(target)
    other = halves.prepare(target, commit=1)
    assert not other.resumes
    assert halves.run(other).verified
    halves.cluster.assert_configs(target, OWN)
    assert get_aside(killed.backup.store, killed.layout) == ()


def test_nor_what_protects_a_topic_that_another_restore_made(halves: Halves) -> None:
    target = new_name(halves.topic)
    prepared = halves.prepare(target)
    put_own_record(prepared.backup.store, prepared.layout, prepared.record)
    create_topics(halves.admin, prepared.record.settings)  # and here it is killed
    assert halves.run(halves.prepare(target, commit=1)).verified
    halves.cluster.assert_configs(target, halves.settings(halves.topic))


def test_what_its_owner_set_after_they_were_put_back_is_the_topic_s_own(halves: Halves) -> None:
    target = halves.target()
    halves.fail(target)
    changed = {"retention.ms": str(DAY_MS)}
    halves.admin.alter_topic_configs({target: changed})
    wait_until(lambda: halves.settings(target).items() >= changed.items())
    assert halves.run(halves.prepare(target)).verified
    halves.cluster.assert_configs(target, {**OWN, **changed})


def test_what_its_owner_set_while_a_killed_run_was_down_is_the_topic_s_own(halves: Halves) -> None:
    target = halves.target()
    halves.kill(target)
    changed = {"retention.ms": str(DAY_MS)}
    halves.admin.alter_topic_configs({target: changed})
    wait_until(lambda: halves.settings(target).items() >= changed.items())
    assert halves.run(halves.prepare(target)).resumed
    halves.cluster.assert_configs(target, {**OWN, **changed})


class AlteringRunner(PassingRunner):
    """Somebody changes settings of the target before the first record is written."""

    def __init__(self, halves: Halves, target: str, changes: Mapping[str, str | None]) -> None:
        super().__init__(halves.site.spark)
        self._alter = partial(halves.admin.alter_topic_configs, {target: changes})

    def run_all(
        self, tasks: Sequence[TaskT], function: Callable[[TaskT], ResultT], *, on_progress: OnProgress | None = None
    ) -> list[Done[ResultT] | Failed]:
        self._alter()
        return super().run_all(tasks, function, on_progress=on_progress)


def test_what_somebody_sets_while_the_restore_writes_is_left_and_named(halves: Halves) -> None:
    year = str(365 * DAY_MS)
    target, made = halves.target(), new_name(halves.topic)
    result = halves.run(halves.prepare(target), runner=AlteringRunner(halves, target, {"retention.ms": year}))
    halves.cluster.assert_configs(target, {**OWN, "retention.ms": year})
    (note,) = result.notes
    assert note.startswith(f"{target} keeps retention.ms={year}: somebody changed the setting during the restore")
    assert note.endswith("would have set 3600000")
    result = halves.run(halves.prepare(made), runner=AlteringRunner(halves, made, {"cleanup.policy": None}))
    source = halves.settings(halves.topic)
    halves.cluster.assert_configs(made, {name: value for name, value in source.items() if name != "cleanup.policy"})
    (note,) = result.notes
    assert note.startswith(f"{made} keeps cleanup.policy=(the brokers' default): somebody changed the setting")
    assert note.endswith("the restore would have set compact,delete")
    assert halves.run(halves.prepare(new_name(halves.topic))).notes == ()


def test_records_that_an_existing_topic_s_retention_took_between_two_runs_are_missed(halves: Halves) -> None:
    own = {"retention.ms": "3600000"}
    target = halves.target(own)
    halves.fail(target)
    halves.cluster.assert_configs(target, own)
    key = TopicPartition(topic=target, partition=0)
    wait_until(lambda: halves.admin.start_offsets([key])[key] > 0)
    with pytest.raises(TargetMismatch, match=f"{key} begins at offset .* instead of 0") as refusal:
        halves.run(halves.prepare(target))
    assert "run the same command" in refusal.value.hint
    halves.cluster.assert_configs(target, own)
    halves.admin.delete_topics([target])
    halves.admin.create_topics([NewTopic(name=target, partitions=1, configs=own)])
    assert halves.run(halves.prepare(target)).verified
    halves.cluster.assert_configs(target, own)


def test_a_killed_run_s_originals_come_from_its_record_where_nothing_else_tells(halves: Halves) -> None:
    """Restores of older versions wrote down nothing but what they had decided."""
    target = halves.target()
    killed = halves.kill(target)
    killed.backup.store.delete(killed.layout.aside_key(1))
    assert halves.run(halves.prepare(target)).verified
    halves.cluster.assert_configs(target, OWN)
