"""`offsite groups` and `offsite restore map` as scripts use them: JSON, exit codes, and no JVM."""

from __future__ import annotations

import itertools

import pytest

from offsite.cli.output import EXIT_PARTIAL
from offsite.demo.data import BASE_MS, DemoMessage
from offsite.engine.runner import Runner
from offsite.log.group_offsets import CommittedOffset, GroupOffsets, TopicOffsets
from tests.inline_runner import CrossingRunner
from tests.integration.e2e.command import command, offsite, succeed
from tests.integration.e2e.group_site import client
from tests.integration.e2e.site import BACKUP, Site, new_name
from tests.integration.kafka.cluster import wait_until

GROUP = "billing: [eu]"
_numbers = itertools.count()


@pytest.fixture(scope="module")
def spark() -> Runner:
    """None: groups are the driver's work."""
    return CrossingRunner()


class Shop:
    """A backup with one group, restored under another name on the same cluster."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.group = f"{GROUP} {next(_numbers)}"
        self.topic = site.make_topic()
        self.target = new_name(self.topic)
        site.produce(self.topic, [DemoMessage(key=b"k", value=b"%d" % n, timestamp_ms=BASE_MS + n) for n in range(10)])
        site.delete_before(self.topic, 4)
        self.commit(self.topic, 6)
        site.back_up(self.topic)
        self.restore = site.restore(self.topic, self.target).restore
        self.backup = ("--repo", site.repository.store.url, "--backup", BACKUP)
        self.cluster = ("--bootstrap", site.cluster.bootstrap)

    def commit(self, topic: str, offset: int) -> None:
        topics = (TopicOffsets.of(topic, [CommittedOffset(0, offset, metadata="m")]),)
        assert self.site.cluster.admin.groups.commit({self.group: GroupOffsets(group=self.group, topics=topics)}) == ()

    def committed(self) -> dict[str, dict[int, int]]:
        client = self.site.cluster.admin.groups
        listed = [each for each in client.list() if each.group == self.group]
        return {each.topic: each.by_partition() for each in client.offsets(listed).groups[self.group].topics}


@pytest.fixture
def shop(site: Site) -> Shop:
    return Shop(site)


def test_groups_are_shown_planned_applied_and_undone(shop: Shop) -> None:
    shown = succeed("groups", "show", *shop.backup)
    (group,) = shown["groups"]
    assert (group["group"], group["kind"], shown["origin"], shown["commit"]) == (shop.group, "classic", "snapshot", 1)
    topic = {"topic": shop.topic, "offsets": {"0": 6}, "metadata": {"0": "m"}, "lag": 4, "commit": 0}
    assert group["topics"] == [topic]
    plan = succeed("groups", "plan", *shop.backup, *shop.cluster, "--restore", shop.restore)
    (planned,) = plan["groups"]
    expected = {"topic": shop.topic, "target": shop.target, "partition": 0, "source": 6, "current": -1, "new": 2}
    assert planned["offsets"] == [{**expected, "how": "exact"}]
    applied = succeed("groups", "apply", *shop.backup, *shop.cluster, "--restore", shop.restore, "--yes")
    assert (applied["groups"], applied["offsets_set"], applied["failed"]) == (1, 1, [])
    assert shop.committed() == {shop.topic: {0: 6}, shop.target: {0: 2}}
    again = succeed("groups", "apply", *shop.backup, *shop.cluster, "--restore", shop.restore, "--yes")
    assert (again["change"], again["offsets_set"], again["unchanged"]) == ("", 0, 1)
    undone = succeed("groups", "undo", *shop.backup, *shop.cluster, "--change", applied["change"], "--yes")
    assert (undone["offsets_removed"], undone["failed"]) == (1, [])
    assert shop.committed() == {shop.topic: {0: 6}}


def test_a_group_with_members_is_told_by_the_exit_code(shop: Shop) -> None:
    member = client(shop.site.cluster, shop.group)
    member.subscribe([shop.topic])
    wait_until(lambda: (member.poll(0.1), bool(member.assignment()))[1])
    done = offsite("groups", "apply", *shop.backup, *shop.cluster, "--restore", shop.restore, "--yes")
    member.close()
    assert done.exit_code == EXIT_PARTIAL
    assert [each["group"] for each in done.result["failed"]] == [shop.group]


def test_nothing_is_changed_unconfirmed_and_mistakes_are_named(shop: Shop) -> None:
    refused = offsite("groups", "apply", *shop.backup, *shop.cluster, "--restore", shop.restore)
    assert (refused.exit_code, refused.error["id"]) == (14, "OFF-1404")
    assert shop.committed() == {shop.topic: {0: 6}}
    unknown = offsite("groups", "plan", *shop.backup, *shop.cluster, "--restore", "20200101-000000-00000000")
    assert (unknown.exit_code, unknown.error["id"]) == (2, "OFF-0209")
    both = offsite("groups", "plan", *shop.backup, *shop.cluster, "--restore", shop.restore, "--commit", 1)
    assert (both.exit_code, both.error["id"]) == (2, "OFF-0202")
    nothing = offsite("groups", "undo", *shop.backup, *shop.cluster, "--yes")
    assert (nothing.exit_code, nothing.error["id"]) == (2, "OFF-0209")


def test_an_offset_is_looked_up_in_the_map_of_a_restore(shop: Shop) -> None:
    answer = succeed("restore", "map", f"{shop.topic}/0", 7, *shop.backup, "--restore", shop.restore)
    assert (answer["target_topic"], answer["target_offset"], answer["match"]) == (shop.target, 3, "exact")
    wrong = offsite("restore", "map", shop.topic, 7, *shop.backup, "--restore", shop.restore)
    assert (wrong.exit_code, wrong.error["id"]) == (2, "OFF-0202")


def test_people_see_names_as_they_are(shop: Shop) -> None:
    """A group's name may look like markup; a command that was shown can be copied."""
    import subprocess

    asked = command("groups", "plan", *shop.backup, *shop.cluster, "--restore", shop.restore)[:-2]
    table = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    assert shop.group in table
    assert "1 offset to set" in table
