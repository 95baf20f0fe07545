"""Offset maps when the target of an unfinished restore is deleted and made anew: those of before never count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from offsite.engine.runner import Done, Failed, OnProgress
from offsite.groups.restored_offsets import map_offset
from offsite.kafka.protocol.metadata import NewTopic
from offsite.log.range import TopicPartition
from offsite.model.selection import parse_selection
from offsite.model.topic_choices import parse_renames
from offsite.repository.repository import Repository
from offsite.restore.compare.partition import prove_bundle
from offsite.restore.plan import prepare_restore
from offsite.restore.request import RestoreRequest
from offsite.restore.result import RestoreResult
from offsite.restore.run import run_restore
from offsite.sandbox import SandboxInfo
from offsite.stores.open_store import open_store
from tests.faulty_store import Crash
from tests.inline_runner import InlineRunner, ResultT, TaskT
from tests.integration.e2e.site import Site, new_name
from tests.integration.kafka.cluster import Cluster
from tests.integration.pipeline.test_restore_fence import messages

RECORDS, BEGINS_AT = 40, 30


class DyingBeforeTheProof(InlineRunner):
    def run_all(
        self, tasks: Sequence[TaskT], function: Callable[[TaskT], ResultT], *, on_progress: OnProgress | None = None
    ) -> list[Done[ResultT] | Failed]:
        if getattr(function, "func", None) is prove_bundle:
            raise Crash
        return super().run_all(tasks, function, on_progress=on_progress)


@pytest.fixture
def site(broker: SandboxInfo, tmp_path: Path) -> Site:
    return Site(Cluster(broker.bootstrap), Repository.init(open_store(str(tmp_path / "repository"))), InlineRunner())


def restore(site: Site, topic: str, target: str, runner: InlineRunner) -> RestoreResult:
    request = RestoreRequest(
        selection=parse_selection([topic]), renames=parse_renames([f"{topic}={target}"]), offsets="translate"
    )
    prepared = prepare_restore(site.backup, site.cluster.admin, request)
    return run_restore(prepared, cluster=site.cluster, runner=runner)


def test_a_map_of_a_target_that_began_elsewhere_does_not_survive_it(site: Site) -> None:
    topic, target = site.make_topic(), new_name("target")
    site.produce(topic, messages(0, RECORDS))
    site.back_up(topic)
    site.cluster.admin.create_topics([NewTopic(name=target, partitions=1)])
    site.produce(target, messages(0, BEGINS_AT))
    site.delete_before(target, BEGINS_AT)
    with pytest.raises(Crash):
        restore(site, topic, target, DyingBeforeTheProof())
    assert site.cluster.end(target) == BEGINS_AT + RECORDS
    site.cluster.admin.delete_topics([target])
    site.cluster.admin.create_topics([NewTopic(name=target, partitions=1)])
    result = restore(site, topic, target, InlineRunner())
    assert (result.resumed, result.verified, site.cluster.end(target)) == (True, True, RECORDS)
    answers = [
        map_offset(site.backup, result.restore, TopicPartition(topic=topic, partition=0), offset).target_offset
        for offset in (0, 17, RECORDS)
    ]
    assert answers == [0, 17, RECORDS]
