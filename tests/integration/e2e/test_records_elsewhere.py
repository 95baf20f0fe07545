"""Restores, drills and changes of groups from a repository that cannot be written, on a broker: their records lie in a
folder or a bucket, and not a byte of the repository changes. Two such places at a time double nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition as Position

from offsite.demo.data import BASE_MS, DemoMessage
from offsite.groups.restored_offsets import map_offset
from offsite.groups.undo import find_change, undo_groups
from offsite.kafka.cluster import Cluster as Connected
from offsite.log.range import TopicPartition
from offsite.model.clock import SystemClock
from offsite.model.errors import StoreDenied, TargetNotEmpty
from offsite.model.selection import parse_groups, parse_selection
from offsite.model.topic_choices import parse_renames
from offsite.repository.backup import Backup
from offsite.repository.repository import Repository
from offsite.repository.restores.layout import RestoreLayout
from offsite.restore import write_jobs
from offsite.restore.drill import PREFIX, Drill, DrillRequest
from offsite.restore.plan import PlannedRestore, prepare_restore
from offsite.restore.request import RestoreRequest
from offsite.restore.result import RestoreResult
from offsite.restore.run import run_restore
from offsite.sandbox import SandboxInfo
from offsite.stores.open_store import open_store
from tests.denied_store import DeniedStore
from tests.inline_runner import InlineRunner
from tests.integration.e2e.command import files_under
from tests.integration.e2e.group_site import commit
from tests.integration.e2e.site import Site, new_name
from tests.integration.kafka.cluster import Cluster
from tests.s3_servers import ENVIRONMENT, moto_server, new_s3_store

COUNT = 5


@pytest.fixture
def media(broker: SandboxInfo, tmp_path: Path) -> Site:
    """A backup of one topic and a group, in a repository that cannot be written any more."""
    repository = Repository.init(open_store(str(tmp_path / "repository")))
    site = Site(Cluster(broker.bootstrap), repository, InlineRunner())
    topic = site.make_topic()
    site.produce(topic, (DemoMessage(key=b"k", value=b"%d" % n, timestamp_ms=BASE_MS + n) for n in range(COUNT)))
    commit(site.cluster, f"readers-of-{topic}", Position(topic, 0, 3))
    site.back_up(topic)
    return Site(site.cluster, replace(repository, store=DeniedStore(repository.store)), InlineRunner())


@pytest.fixture(scope="module")
def moto() -> Iterator[str]:
    with moto_server() as endpoint:
        yield endpoint


@pytest.fixture(params=["folder", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "folder":
        return new_folder(tmp_path, "records")
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    endpoint = request.getfixturevalue("moto")
    return f"{new_s3_store(endpoint).url}?endpoint={endpoint}"


def new_folder(parent: Path, name: str) -> str:
    (parent / name).mkdir()
    return str(parent / name)


def topic_of(media: Site) -> str:
    (topic,) = {incarnation.topic for incarnation in media.backup.state().topics}
    return topic


def kept(media: Site, place: str) -> Backup:
    return media.backup.with_records_at(open_store(place))


def prepared(media: Site, target: str, *, records: str | None, groups: bool = False) -> PlannedRestore:
    topic = topic_of(media)
    request = RestoreRequest(
        selection=parse_selection([topic]),
        renames=parse_renames([f"{topic}={target}"]),
        records=records,
        groups=parse_groups([f"readers-of-{topic}"] if groups else ["none"]),
    )
    return prepare_restore(media.backup, media.cluster.admin, request)


def run(media: Site, plan: PlannedRestore) -> RestoreResult:
    return run_restore(plan, cluster=connected(media), runner=media.spark)


def connected(media: Site) -> Connected:
    return Connected(config=media.cluster.config, admin=media.cluster.admin)


def test_all_that_is_remembered_lies_there_and_the_repository_stays_as_it_is(
    media: Site, place: str, tmp_path: Path
) -> None:
    before, topic = files_under(tmp_path / "repository"), topic_of(media)
    target, admin = new_name(topic), media.cluster.admin
    with pytest.raises(StoreDenied, match="Read-only"):
        prepared(media, target, records=None)
    assert target not in admin.topics()
    result = run(media, prepared(media, target, records=place, groups=True))
    assert (result.verified, result.records) == (True, COUNT)
    media.assert_same(media.read(topic), media.read(target))
    backup, layout = kept(media, place), RestoreLayout(backup=media.backup.layout, restore=result.restore)
    names = {
        info.key.removeprefix(layout.backup.restores_prefix(result.restore)) for info in open_store(place).list("")
    }
    assert {"restore.json", "report.json"} <= names
    assert {name.split("/")[0] for name in names} >= {"lease", "attempts", "maps"}
    assert map_offset(backup, result.restore, TopicPartition(topic=topic, partition=0), 3).target_offset == 3
    assert result.groups is not None
    undone = undo_groups(backup, admin, find_change(backup, admin, result.groups.change))
    assert (undone.offsets_removed, undone.failed) == (1, ())
    request = DrillRequest(selection=parse_selection([topic]), commit=None, in_sandbox=False, by="nobody")
    report = Drill(
        backup, request, cluster=connected(media), runner=media.spark, clock=SystemClock(), on_report=lambda _: None
    ).run()
    assert (report.proven, report.records) == (True, COUNT)
    assert not [name for name in admin.topics() if name.startswith(PREFIX)]
    assert files_under(tmp_path / "repository") == before


def test_of_two_restores_with_two_places_the_second_finds_the_records_of_the_first_and_adds_none(
    media: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither sees the other's lease. The second one has looked at the topic while it was empty, at the latest moment
    there is, and then the first one writes all of it."""
    target = new_name(topic_of(media))
    first, second = (prepared(media, target, records=new_folder(tmp_path, name)) for name in ("one", "two"))
    find_targets = write_jobs.find_targets

    def overtaken(*ends: object, **words: object) -> object:
        targets = find_targets(*ends, **words)  # type: ignore[arg-type]
        monkeypatch.undo()
        assert run(media, first).verified
        return targets

    monkeypatch.setattr(write_jobs, "find_targets", overtaken)
    with pytest.raises(TargetNotEmpty, match="holds records that this restore did not write, at offset 0"):
        run(media, second)
    assert media.cluster.end(target) == COUNT
    media.assert_same(media.read(topic_of(media)), media.read(target))
    with pytest.raises(TargetNotEmpty):
        run(media, prepared(media, target, records=new_folder(tmp_path, "three")))
