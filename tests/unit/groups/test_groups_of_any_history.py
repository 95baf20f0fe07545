"""Whatever becomes of topics and groups: each topic has the groups of the newest commit that had it, and no others."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsite.groups.groups_as_of import GroupsAsOf, groups_as_of
from offsite.groups.snapshots import save_groups
from offsite.kafka.groups import FetchedGroups
from offsite.log.group_offsets import CommittedOffset, GroupOffsets, TopicOffsets
from offsite.log.range import TopicIncarnation
from offsite.model.selection import ALL_GROUPS, GroupPatterns
from offsite.points.restore_point import PointRequest
from offsite.repository.backup import Backup
from offsite.repository.commit import CommitChanges, StoredCommit, TopicShape
from offsite.repository.commit_log import CommitLog
from offsite.repository.repository import Repository
from offsite.stores.open_store import open_store
from tests.backups import SELECTION
from tests.examples import examples

TOPICS, GROUPS = ("orders", "users"), ("billing", "shipping", "auditing")
Pair = tuple[str, TopicIncarnation]

STEPS = st.lists(
    st.tuples(
        st.fixed_dictionaries({topic: st.sampled_from(["keep", "make", "delete", "remake"]) for topic in TOPICS}),
        st.fixed_dictionaries({(g, t): st.sampled_from([None, 1, 2]) for g in GROUPS for t in TOPICS}),
    ),
    min_size=1,
    max_size=7,
)


@dataclass
class World:
    """A cluster, its backup, and what a person who noted everything would know: of each commit the topics that were
    there, and the offsets that its snapshot has."""

    backup: Backup
    topics: dict[str, TopicIncarnation] = field(default_factory=dict)
    alive: list[set[TopicIncarnation]] = field(default_factory=list)
    tables: list[dict[Pair, int]] = field(default_factory=list)
    made: int = 0

    def step(self, actions: dict[str, str], offsets: dict[tuple[str, str], int | None]) -> None:
        before = set(self.topics.values())
        for topic, action in actions.items():
            if action in {"delete", "remake"}:
                self.topics.pop(topic, None)
            if action == "remake" or (action == "make" and topic not in self.topics):
                self.made += 1
                self.topics[topic] = TopicIncarnation(topic=topic, topic_id=f"id-{self.made}")
        table = {
            (group, self.topics[topic]): offset
            for (group, topic), offset in offsets.items()
            if offset is not None and topic in self.topics
        }
        self._commit(table, before - set(self.topics.values()))
        former = self.tables[-1] if self.tables else {}
        self.tables.append(table or former)  # no group at all is no answer
        self.alive.append(set(self.topics.values()))

    def _commit(self, table: dict[Pair, int], deleted: set[TopicIncarnation]) -> None:
        backup, base = self.backup, self.backup.state()
        shapes = [_shape(each) for each in self.topics.values()]
        fetched = FetchedGroups(groups=_groups(table), failed=())
        key, _ = save_groups(backup, base, fetched, shapes, patterns=ALL_GROUPS)
        marked = [replace(_shape(each), deleted_ms=backup.store.now_ms()) for each in deleted]
        changes = CommitChanges(
            topics=(*shapes, *sorted(marked, key=lambda each: each.topic_id)), groups=key, accounted=True
        )
        backup.commit(changes, base=base, writer=f"writer-{base.seq}")

    def expected(self, commit: int) -> dict[Pair, int]:
        """Of the latest topic of each name what the newest commit has that had it."""
        return {
            pair: offset
            for incarnation, last in self._latest(commit)
            for pair, offset in self.tables[last].items()
            if pair[1] == incarnation
        }

    def gone(self, commit: int) -> dict[Pair, int]:
        """The pairs that were there before, and since which commit they are not."""
        found: dict[Pair, int] = {}
        for incarnation, last in self._latest(commit):
            for group in GROUPS:
                pair = (group, incarnation)
                seen = [number for number in range(last + 1) if pair in self.tables[number]]
                if seen and pair not in self.tables[last]:
                    found[pair] = seen[-1] + 2  # commits count from 1
        return found

    def _latest(self, commit: int) -> list[tuple[TopicIncarnation, int]]:
        """The latest topic of each name up to a commit, and the index of the newest commit that had it."""
        known: dict[str, tuple[TopicIncarnation, int]] = {}
        for number, there in enumerate(self.alive[:commit]):
            known |= {each.topic: (each, number) for each in there}
        return list(known.values())


def _shape(of: TopicIncarnation) -> TopicShape:
    return TopicShape(topic=of.topic, topic_id=of.topic_id, partitions=1, replication_factor=1)


def _groups(table: dict[Pair, int]) -> dict[str, GroupOffsets]:
    found: dict[str, list[TopicOffsets]] = {}
    for (group, of), offset in sorted(table.items()):
        found.setdefault(group, []).append(TopicOffsets.of(of.topic, [CommittedOffset(0, offset)]))
    return {name: GroupOffsets(group=name, topics=tuple(topics)) for name, topics in found.items()}


def _pairs(found: GroupsAsOf) -> dict[Pair, int]:
    return {
        (name, TopicIncarnation(topic=topic.topic, topic_id=topic.topic_id)): topic.offsets[0]
        for name, group in found.groups.items()
        for topic in group.topics
    }


@given(STEPS, st.data())
@examples(25)
def test_each_topic_has_the_groups_of_the_newest_commit_that_had_it(steps: list[Any], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        repository = Repository.init(open_store(folder))
        world = World(backup=repository.create_backup("b", cluster_id="cluster", selection=SELECTION))
        for actions, offsets in steps:
            world.step(actions, offsets)
        commit = data.draw(st.integers(1, len(steps)))
        request = PointRequest(commit=commit)
        found = groups_as_of(world.backup, request)
        assert _pairs(found) == world.expected(commit)
        gone = world.gone(commit)
        assert {(each.group, each.topic): each.commit for each in found.gone} == {
            (group, of.topic): since for (group, of), since in gone.items()
        }
        for (group, of), since in gone.items():
            taken = groups_as_of(world.backup, request, patterns=GroupPatterns(include=(group,)))
            assert _pairs(taken)[group, of] == world.tables[since - 2][group, of]


def test_the_commits_of_a_backup_with_many_deleted_topics_are_read_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each deleted topic read all commits since the catalog before it: 400 of them took 14 seconds."""
    reads = 0
    decoded = CommitLog._decoded

    def counting(log: CommitLog, key: str, data: bytes) -> StoredCommit:
        nonlocal reads
        reads += 1
        return decoded(log, key, data)

    with tempfile.TemporaryDirectory() as folder:
        repository, count = Repository.init(open_store(folder)), 40
        world = World(backup=repository.create_backup("b", cluster_id="cluster", selection=SELECTION))
        for number in range(count):
            world.step({f"t{number}": "make", f"t{number - 1}": "delete"}, {("billing", f"t{number}"): number})
        monkeypatch.setattr(CommitLog, "_decoded", counting)
        as_of = groups_as_of(world.backup, PointRequest(commit=count))
    assert {of.topic: offset for (_, of), offset in _pairs(as_of).items()} == {f"t{n}": n for n in range(count)}
    assert reads < 5 * count


def test_a_topic_that_is_made_again_has_no_offsets_of_the_one_before() -> None:
    """No group at all is no answer: the snapshot of the first commit is kept, and is about the first topic."""
    no_offsets = {(group, topic): None for group in GROUPS for topic in TOPICS}
    with tempfile.TemporaryDirectory() as folder:
        repository = Repository.init(open_store(folder))
        world = World(backup=repository.create_backup("b", cluster_id="cluster", selection=SELECTION))
        world.step({"users": "make"}, {**no_offsets, ("auditing", "users"): 1})
        world.step({"users": "remake"}, no_offsets)
        as_of = groups_as_of(world.backup, PointRequest(commit=2))
        assert _pairs(as_of) == {}
        assert "another incarnation" in " ".join(as_of.notes)
