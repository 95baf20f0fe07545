"""A restore that dies after any of its steps ends, by the same request, as one that never died: in both offset modes,
with its groups, its proof and its report. (Death inside a step, from outside, is `test_crash`'s.)"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex, TypeVar

import pytest
from confluent_kafka import Consumer, TopicPartition

from offsite.backup.options import BackupRequest
from offsite.backup.plan import plan_backup
from offsite.backup.run import run_backup
from offsite.demo.data import compare_readings
from offsite.engine.runner import Done, Failed, OnProgress, Runner
from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.cluster import Cluster
from offsite.kafka.net.routing import Router
from offsite.kafka.protocol.request import Request
from offsite.log.buffer import Buffer
from offsite.model.selection import GroupPatterns, parse_selection
from offsite.model.topic_choices import parse_renames
from offsite.repository.backup import Backup
from offsite.repository.repository import Repository
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.restores.record import find_record, get_outcome
from offsite.restore.plan import prepare_restore
from offsite.restore.request import RestoreRequest
from offsite.restore.result import RestoreResult
from offsite.restore.run import run_restore
from offsite.stores.store import PutResult, Store
from tests.faulty_store import Crash
from tests.inline_runner import CrossingRunner
from tests.integration.e2e.site import BACKUP, SLOTS, Site, new_name
from tests.integration.e2e.test_proof import messages
from tests.integration.e2e.transactions import with_transaction
from tests.passing_runner import PassingRunner, ResultT, TaskT

T = TypeVar("T")

GROUP, COMMITTED = "steps", 40
STEPS_MIN, STEPS_MAX = 6, 40


@pytest.fixture(scope="module")
def spark() -> Runner:
    """None: it is the driver that dies (`test_crash` kills a Spark)."""
    return CrossingRunner()


class Steps:
    """Counts what the driver has done; dies right after number `last`."""

    def __init__(self, last: int) -> None:
        self._left = last

    def passed(self, result: T) -> T:
        self._left -= 1
        if self._left == 0:
            raise Crash
        return result


class SteppedStore:
    """In the driver only: workers get the store itself."""

    def __init__(self, inner: Store, steps: Steps) -> None:
        self._inner = inner
        self._steps = steps

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        return self._inner.__reduce_ex__(protocol)

    def put_if_absent(self, key: str, data: Buffer | Sequence[Buffer]) -> PutResult:
        return self._steps.passed(self._inner.put_if_absent(key, data))


class SteppedAdmin(ClusterAdmin):
    """Dies after what changes topics."""

    def __init__(self, router: Router, steps: Steps) -> None:
        super().__init__(router)
        self._steps = steps

    def _ask_controller(self, request: Request[T]) -> T:
        return self._steps.passed(super()._ask_controller(request))


class SteppedRunner(PassingRunner):
    """Dies after the copy, and after the proof."""

    def __init__(self, inner: Runner, steps: Steps) -> None:
        super().__init__(inner)
        self._steps = steps

    def run(
        self, tasks: Sequence[TaskT], function: Callable[[TaskT], ResultT], *, on_progress: OnProgress | None = None
    ) -> list[ResultT]:
        return self._steps.passed(super().run(tasks, function, on_progress=on_progress))

    def run_all(
        self, tasks: Sequence[TaskT], function: Callable[[TaskT], ResultT], *, on_progress: OnProgress | None = None
    ) -> list[Done[ResultT] | Failed]:
        return self._steps.passed(super().run_all(tasks, function, on_progress=on_progress))


def source_topic(site: Site) -> str:
    """A log that begins at 7, with a transaction that was aborted and one that was not, and a group in it."""
    topic = site.make_topic()
    site.produce(topic, messages()[:100])
    with_transaction(site, topic, messages()[100:130], commit=False)
    with_transaction(site, topic, messages()[130:160], commit=True)
    site.delete_before(topic, 7)
    consumer = Consumer({"bootstrap.servers": site.cluster.bootstrap, "group.id": GROUP})
    consumer.commit(offsets=[TopicPartition(topic, 0, COMMITTED)], asynchronous=False)
    consumer.close()
    request = BackupRequest(backup=BACKUP, selection=parse_selection([topic]), groups=GroupPatterns(include=(GROUP,)))
    plan = plan_backup(site.repository, site.cluster.admin, request, slots=SLOTS)
    run_backup(plan, repository=site.repository, kafka=site.cluster.config, runner=site.spark)
    return topic


def restore(site: Site, backup: Backup, request: RestoreRequest, steps: Steps) -> RestoreResult:
    admin = SteppedAdmin(site.cluster.router, steps)
    prepared = prepare_restore(backup, admin, request)
    runner = SteppedRunner(site.spark, steps)
    return run_restore(prepared, cluster=Cluster(config=site.cluster.config, admin=admin), runner=runner)


@pytest.mark.parametrize("offsets", [pytest.param("translate", marks=pytest.mark.soak), "preserve"])
def test_a_restore_that_dies_after_any_step_is_finished_by_the_same_request(site: Site, offsets: str) -> None:
    topic = source_topic(site)
    source = site.read(topic)
    for last in range(1, STEPS_MAX):
        target = new_name(topic)
        request = RestoreRequest(
            selection=parse_selection([topic]),
            renames=parse_renames([f"{topic}={target}"]),
            offsets=offsets,
            groups=GroupPatterns(include=(GROUP,)),
        )
        steps = Steps(last)
        dying = Repository.open(SteppedStore(site.repository.store, steps)).backup(BACKUP)
        with pytest.raises(Crash):
            restore(site, dying, request, steps)
        if has_ended(site, target):
            break  # it died after its report, the last step
        result = restore(site, site.backup, request, Steps(-1))
        assert (result.verified, result.findings) == (True, ())
        comparison = compare_readings(topic, source, site.read(target), offsets=offsets == "preserve")
        assert comparison.identical, (last, comparison.difference[:500])
        assert has_ended(site, target)
        assert result.groups is not None
        assert committed(site, target) == (COMMITTED if offsets == "preserve" else COMMITTED - 7)
    assert last > STEPS_MIN


def has_ended(site: Site, target: str) -> bool:
    """Whether a restore into `target` left a report. One that died before it made a topic has another after it."""
    store, backup = site.repository.store, site.backup.layout
    names = {info.key.split("/")[3] for info in store.list(f"{backup.prefix}restores/")}
    layouts = [RestoreLayout(backup=backup, restore=name) for name in names]
    records = [(layout, find_record(store, layout)) for layout in layouts]
    mine = [layout for layout, record in records if record and target in dict(record.topics).values()]
    return any(get_outcome(store, layout) is not None for layout in mine)


def committed(site: Site, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": site.cluster.bootstrap, "group.id": GROUP})
    try:
        (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=60)
        return found.offset
    finally:
        consumer.close()
