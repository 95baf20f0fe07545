"""Share groups of a real application (KIP-932): a restore loses no job that was not done, and names what is delivered
again. Kafka 4.1 has share groups as a preview whose positions can be read and not set."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition as Position

from offsite.groups.report import report_groups, show_groups
from offsite.groups.run import GroupsRequest, prepare_groups
from offsite.groups.undo import find_change, undo_groups
from offsite.model.selection import ALL_GROUPS, GroupPatterns, parse_selection
from offsite.model.topic_choices import parse_renames
from offsite.repository.repository import Repository
from offsite.restore.groups_outlook import GroupVerdict
from offsite.restore.plan import prepare_restore
from offsite.restore.plan_report import report_plan
from offsite.restore.request import RestoreRequest
from offsite.restore.result import RestoreResult
from offsite.restore.run import run_restore
from offsite.sandbox import KNOWN_VERSIONS, SandboxSettings
from offsite.stores.open_store import open_store
from tests.inline_runner import InlineRunner
from tests.integration.e2e.group_site import Groups, commit, committed, delete_group, new_group, numbered
from tests.integration.kafka.cluster import Cluster, wait_until
from tests.integration.versions.test_round_trip import await_coordinator
from tests.share_groups.jobs import enable_share_groups, jobs_done, set_reset
from tests.shared_brokers import running

JOBS, DONE, DONE_ODD = 443, 100, 40

pytestmark = pytest.mark.soak


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


SETS_POSITIONS = (4, 2)
VERSIONS = tuple(version for version in KNOWN_VERSIONS if _number(version) >= (4, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    cluster: Cluster
    sets_positions: bool


@pytest.fixture(scope="module", params=VERSIONS)
def kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    version: str = request.param
    with running(tmp_path_factory.mktemp(version), SandboxSettings(kafka_version=version)) as (_, info):
        if _number(version) < SETS_POSITIONS:
            enable_share_groups(info.bootstrap)
        cluster = Cluster(info.bootstrap)
        await_coordinator(cluster)
        yield Shared(cluster=cluster, sets_positions=_number(version) >= SETS_POSITIONS)


@pytest.fixture
def site(kafka: Shared, tmp_path: Path) -> Groups:
    repository = Repository.init(open_store(str(tmp_path / "repository")))
    return Groups(kafka.cluster, kafka.cluster, repository, InlineRunner())


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    topic: str
    group: str
    done: frozenset[str]
    jobs: frozenset[str]


def work(site: Groups) -> Work:
    """A topic of jobs. Of those, a group did the first ones, and some later ones out of order."""
    bootstrap, topic, group = site.source.bootstrap, site.source.make_topic(), new_group()
    site.site.produce(topic, numbered(JOBS))
    set_reset(bootstrap, group, "earliest")
    done = jobs_done(bootstrap, group, topic, most=DONE)
    done += jobs_done(bootstrap, group, topic, most=DONE_ODD, only_odd=True)
    jobs = frozenset(message.value.decode() for message in numbered(JOBS) if message.value is not None)
    assert DONE < len(done) < JOBS
    return Work(topic=topic, group=group, done=frozenset(done), jobs=jobs)


def lose(site: Groups, of: Work) -> None:
    """The topic and the group are gone, and groups begin at the end, as on a new cluster. The group goes first: brokers
    may refuse to delete a share group whose topic has just been deleted."""
    delete_group(site.source, of.group)
    site.source.admin.delete_topics([of.topic])
    wait_until(lambda: of.topic not in site.source.admin.topics())
    set_reset(site.source.bootstrap, of.group, "latest")


def restored(site: Groups, of: Work, *, target: str, offsets: str) -> RestoreResult:
    request = RestoreRequest(
        selection=parse_selection([of.topic]),
        renames=parse_renames([f"{of.topic}={target}"] if target != of.topic else []),
        offsets=offsets,
        groups=GroupPatterns(include=(of.group,)),
    )
    prepared = prepare_restore(site.site.backup, site.target.admin, request)
    assert prepared.outlook is not None
    (foreseen,) = prepared.outlook.groups
    verdict = GroupVerdict.NOT_SET if prepared.outlook.unsettable else GroupVerdict.DELIVERS_AGAIN
    assert (foreseen.kind, foreseen.verdict) == ("share", verdict)
    return run_restore(prepared, cluster=site.target, runner=site.site.spark)


@pytest.mark.parametrize("renamed", [False, True])
@pytest.mark.parametrize("offsets", ["auto", "translate"])
def test_a_share_group_goes_on_with_all_that_was_not_done(
    kafka: Shared, site: Groups, offsets: str, renamed: bool
) -> None:
    of = work(site)
    assert site.back_up(of.topic).complete
    (shown,) = [group for group in show_groups(site.site.backup, groups=ALL_GROUPS).groups if group.group == of.group]
    (position,) = shown.topics[0].offsets.values()
    assert (shown.kind, shown.reset) == ("share", "earliest")
    assert 0 <= position <= DONE
    lose(site, of)
    target = f"{of.topic}-back" if renamed else of.topic
    result = restored(site, of, target=target, offsets=offsets)
    assert result.groups is not None
    if not kafka.sets_positions:
        (failure,) = result.groups.failed
        assert (failure.group, failure.error, failure.kind) == (of.group, "NOT_SET", "share")
        assert not result.groups.complete
        return
    assert result.groups.kinds == {of.group: "share"}
    (again,) = result.groups.share_positions
    assert (again.topic, dict(again.positions), again.without) == (target, {0: position}, ())
    after = jobs_done(site.target.bootstrap, of.group, target)
    assert of.done | set(after) == of.jobs
    assert len(after) == JOBS - position  # nothing before the position again


def test_what_was_set_is_undone(kafka: Shared, site: Groups) -> None:
    if not kafka.sets_positions:
        pytest.skip("it cannot be set")
    of = work(site)
    site.back_up(of.topic)
    admin = site.target.admin
    before = {group.group: group for group in admin.groups.list()}
    read = admin.groups.offsets([before[of.group]]).groups[of.group].topics[0].by_partition()
    for _ in range(2):  # a position is stored with the acknowledgement after
        jobs_done(site.target.bootstrap, of.group, of.topic, most=50)
    moved = admin.groups.offsets([before[of.group]]).groups[of.group].topics[0].by_partition()
    assert moved != read
    assert site.apply(groups=GroupPatterns(include=(of.group,))).complete
    now = admin.groups.offsets([before[of.group]]).groups[of.group].topics[0].by_partition()
    assert now == read
    undone = undo_groups(site.site.backup, admin, find_change(site.site.backup, admin, None))
    assert undone.failed == ()
    back = admin.groups.offsets([before[of.group]]).groups[of.group].topics[0].by_partition()
    assert back == moved


def test_positions_on_a_topic_without_any_before_are_removed_by_an_undo(kafka: Shared, site: Groups) -> None:
    if not kafka.sets_positions:
        pytest.skip("they cannot be set")
    of = work(site)
    site.back_up(of.topic)
    groups, target = site.target.admin.groups, f"{of.topic}-back"
    result = restored(site, of, target=target, offsets="auto")
    assert result.groups is not None
    assert (result.groups.complete, result.groups.untold) == (True, ())
    (listed,) = [listed for listed in groups.list() if listed.group == of.group]
    assert {topic.topic for topic in groups.offsets([listed]).groups[of.group].topics} == {of.topic, target}
    undone = undo_groups(site.site.backup, site.target.admin, find_change(site.site.backup, site.target.admin, None))
    assert (undone.complete, undone.offsets_put_back, undone.offsets_removed) == (True, 0, 1)
    positions = {topic.topic: topic.by_partition() for topic in groups.offsets([listed]).groups[of.group].topics}
    assert positions.get(target, {0: -1}) == {0: -1}
    assert positions[of.topic][0] >= 0


def test_a_group_that_had_acknowledged_nothing_is_named(kafka: Shared, site: Groups) -> None:
    """Its member had joined, and was given nothing: where it began is in the memory of a broker alone."""
    topic, group = site.source.make_topic(partitions=2), new_group()
    site.site.produce(topic, numbered(20))

    def has_joined() -> bool:
        assert jobs_done(site.source.bootstrap, group, topic, first_s=5) == []
        listed = [listed for listed in site.source.admin.groups.list() if listed.group == group]
        return any(shared.topics for shared in site.source.admin.groups.offsets(listed).groups.values())

    wait_until(has_joined, limit_s=120)
    site.back_up(topic)
    planned = prepare_groups(site.site.backup, site.target.admin, GroupsRequest(groups=GroupPatterns(include=(group,))))
    report = report_groups(planned)
    if not kafka.sets_positions:
        assert [(failure.group, failure.error) for failure in report.failed] == [(group, "NOT_SET")]
        return
    assert [(row.new, row.how) for row in report.groups[0].offsets] == [(-1, "no position")] * 2
    (positions,) = report.share_positions
    assert (positions.without, positions.reset) == ((0, 1), "latest")


def test_groups_that_nobody_requested_are_named(site: Groups) -> None:
    of = work(site)
    site.back_up(of.topic)
    request = RestoreRequest(
        selection=parse_selection([of.topic]), renames=parse_renames([f"{of.topic}={of.topic}-again"])
    )
    notes = report_plan(prepare_restore(site.site.backup, site.target.admin, request)).notes
    assert any(f"1 share group not requested ({of.group})" in note for note in notes)


def test_a_consumer_group_of_the_same_name_keeps_its_offsets(site: Groups) -> None:
    of = work(site)
    site.back_up(of.topic)
    delete_group(site.source, of.group)
    commit(site.target, of.group, Position(of.topic, 0, 7))
    applied = site.apply(groups=GroupPatterns(include=(of.group,)))
    (failure,) = applied.failed
    assert failure.error == "OTHER_KIND"
    assert "it is a classic group on the cluster, and a share group in the backup" in failure.message
    assert committed(site.target, of.group, of.topic) == 7
