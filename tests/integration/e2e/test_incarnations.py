"""A topic that was deleted and made anew: the restore point takes the one that lived then, with its groups."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from offsite.archives.export.plan import ExportRequest, plan_export
from offsite.archives.export.run import open_target
from offsite.archives.formats import WriteOptions
from offsite.demo.data import BASE_MS, DAY_MS, DemoMessage
from offsite.engine.runner import Runner
from offsite.kafka.protocol.metadata import NewTopic
from offsite.log.group_offsets import CommittedOffset, GroupOffsets, TopicOffsets
from offsite.model.clock import SystemClock
from offsite.model.errors import IncarnationUnclear
from offsite.model.selection import GroupPatterns, parse_selection
from offsite.model.topic_choices import parse_renames
from offsite.model.units import format_time
from offsite.restore.plan import PlannedRestore, prepare_restore
from offsite.restore.request import RestoreRequest
from offsite.restore.result import RestoreResult
from offsite.restore.run import run_restore
from tests.begun_restores import put_own_record
from tests.inline_runner import CrossingRunner
from tests.integration.e2e.command import command, offsite, succeed
from tests.integration.e2e.site import BACKUP, Site, new_name, values

OLD, NEW, ON_OLD, ON_NEW = 30, 12, 20, 5
_numbers = itertools.count()


@pytest.fixture(scope="module")
def spark() -> Runner:
    """None: which incarnation is restored is the driver's decision."""
    return CrossingRunner()


@dataclass(frozen=True, slots=True, kw_only=True)
class Anew:
    """`topic` held the `old` values until `between`, was deleted, and holds the `new` ones; one commit of each. `group`
    had read `ON_OLD` of the old, `ON_NEW` of the new records."""

    site: Site
    topic: str
    group: str
    between: str
    old: Sequence[bytes]
    new: Sequence[bytes]

    def prepare(self, target: str, **request: object) -> PlannedRestore:
        wanted = RestoreRequest(
            selection=parse_selection([self.topic]),
            renames=parse_renames([f"{self.topic}={target}"]),
            **request,  # type: ignore[arg-type]
        )
        return prepare_restore(self.site.backup, self.site.cluster.admin, wanted)

    def restore(self, target: str, **request: object) -> RestoreResult:
        """With the group."""
        prepared = self.prepare(target, groups=GroupPatterns(include=(self.group,)), **request)
        cluster = self.site.cluster
        return run_restore(prepared, cluster=cluster, runner=self.site.spark)

    def commit(self, offset: int) -> None:
        topics = (TopicOffsets.of(self.topic, [CommittedOffset(0, offset)]),)
        admin = self.site.cluster.admin
        assert admin.groups.commit({self.group: GroupOffsets(group=self.group, topics=topics)}) == ()

    def committed(self, topic: str) -> dict[int, int] | None:
        client = self.site.cluster.admin.groups
        listed = [each for each in client.list() if each.group == self.group]
        found = {each.topic: each.by_partition() for each in client.offsets(listed).groups[self.group].topics}
        return found.get(topic)


def written(site: Site, topic: str, name: bytes, count: int) -> list[bytes]:
    wanted = [b"%s %d" % (name, n) for n in range(count)]
    now_ms = SystemClock().now_ms()
    site.produce(topic, [DemoMessage(key=b"k", value=value, timestamp_ms=now_ms) for value in wanted])
    return wanted


@pytest.fixture
def anew(site: Site) -> Anew:
    topic = site.make_topic()
    old = written(site, topic, b"old", OLD)
    begun = Anew(site=site, topic=topic, group=f"anew-{next(_numbers)}", between="", old=old, new=())
    begun.commit(ON_OLD)
    site.back_up(topic)
    between = format_time(SystemClock().now_ms())
    site.cluster.admin.delete_topics([topic])
    site.cluster.admin.create_topics([NewTopic(name=topic, partitions=1)])
    new = written(site, topic, b"new", NEW)
    begun.commit(ON_NEW)
    site.back_up()
    return Anew(site=site, topic=topic, group=begun.group, between=between, old=old, new=new)


def test_a_time_restores_the_topic_that_lived_then_with_its_groups(anew: Anew) -> None:
    target = new_name(anew.topic)
    result = anew.restore(target, at=anew.between)
    assert values(anew.site.read(target)) == anew.old
    assert (result.verified, result.records) == (True, OLD)
    assert [(each.number, each.taken, each.records) for each in result.incarnations] == [
        (1, True, OLD),
        (2, False, NEW),
    ]
    assert anew.committed(target) == {0: ON_OLD}


def test_the_newest_is_restored_without_a_time_and_the_older_one_when_it_is_chosen(anew: Anew) -> None:
    newest, oldest = new_name(anew.topic), new_name(anew.topic)
    result = anew.restore(newest)
    assert values(anew.site.read(newest)) == anew.new
    assert [(each.number, each.taken, each.last_commit) for each in result.incarnations] == [
        (1, False, 1),
        (2, True, 2),
    ]
    assert anew.committed(newest) == {0: ON_NEW}
    chosen = anew.restore(oldest, incarnations={anew.topic: "oldest"})
    assert values(anew.site.read(oldest)) == anew.old
    assert anew.committed(oldest) == {0: ON_OLD}, "as of the newest commit that had it"
    assert chosen.groups is not None
    assert [each.commit for each in chosen.groups.earlier] == [1]


def test_an_export_of_the_older_one_names_it_and_has_its_groups(anew: Anew, tmp_path: Path) -> None:
    point = RestoreRequest(selection=parse_selection([anew.topic]), at=anew.between)
    target = open_target("jsonl", str(tmp_path / "archive"), WriteOptions())
    plan = plan_export(anew.site.backup, target.writer, ExportRequest(point=point))
    assert [task.range.end for task in plan.tasks] == [OLD]
    assert [each.by_partition() for each in plan.groups[anew.group].topics] == [{0: ON_OLD}]
    assert any(note.startswith("not used: incarnation 2 of 2") for note in plan.notes)
    assert any("its groups come from commit 1" in note for note in plan.notes)


def test_a_restore_goes_on_with_the_topic_it_began_with(anew: Anew) -> None:
    target = new_name(anew.topic)
    first = anew.prepare(target, at=anew.between)
    put_own_record(first.backup.store, first.layout, first.record)
    anew.site.cluster.admin.create_topics([NewTopic(name=target, partitions=1)])  # and here the first run is killed
    again = anew.prepare(target, at=anew.between)
    assert (again.resumes, again.record) == (True, first.record)
    (taken,) = (each for each in again.point.incarnations if each.taken)
    assert (taken.number, taken.because) == (1, "the restore began with it")
    assert dict(again.record.incarnations) == {anew.topic: taken.topic_id}


def test_commands_name_the_ones_left_aside_and_take_one(anew: Anew) -> None:
    backup = ("--repo", anew.site.repository.store.url, "--backup", BACKUP)
    ends = (*backup, "--bootstrap", anew.site.cluster.bootstrap, "--topics", anew.topic)
    rename = ("--rename", f"{anew.topic}={new_name(anew.topic)}")
    plan = succeed("restore", "plan", *ends, *rename)
    assert [(each["number"], each["taken"]) for each in plan["incarnations"]] == [(1, False), (2, True)]
    assert plan["incarnations"][0]["ranges"] == [{"partition": 0, "start": 0, "end": OLD}]
    for_people = command("restore", "plan", *ends, *rename)[:-2]  # less -o json
    text = subprocess.run(for_people, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True).stdout
    assert f"not used: incarnation 1 of 2 of {anew.topic}" in text
    assert f"--incarnation {anew.topic}=1" in text
    shown = offsite("cat", anew.topic, *backup, "--incarnation", f"{anew.topic}=1", "--limit", "1")
    assert "old 0" in shown.stdout
    assert "this is incarnation 1 of 2" in shown.stderr


def test_a_topic_filled_again_with_its_old_records_is_refused_where_dates_do_not_tell(site: Site) -> None:
    topic = site.make_topic()
    records = [DemoMessage(key=b"k", value=b"v", timestamp_ms=BASE_MS + n * DAY_MS) for n in range(5)]
    site.produce(topic, records)
    site.back_up(topic)
    site.cluster.admin.delete_topics([topic])
    site.cluster.admin.create_topics([NewTopic(name=topic, partitions=1)])
    between = format_time(SystemClock().now_ms())
    site.produce(topic, records)
    site.back_up()
    request = RestoreRequest(
        selection=parse_selection([topic]), renames=parse_renames([f"{topic}={new_name(topic)}"]), at=between
    )
    with pytest.raises(IncarnationUnclear) as refusal:
        prepare_restore(site.backup, site.cluster.admin, request)
    assert f"--incarnation {topic}=2" in refusal.value.hint
