"""Cuts of checkpoints that were opened to participants: small random clusters of applications that stamp what they
write, with an opener that reads groups, writes markers and reads ends while they run. They know what caused what; on
each the cut keeps no record without its causes and no offset without the outputs, and brute force finds none greater.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product
from random import Random

import pytest

from offsite.cut import greatest, group_offsets
from offsite.cut.cut import Cut
from offsite.cut.effect import Effect, effects
from offsite.cut.greatest import greatest_cut
from offsite.cut.window import GroupCommit, StampedRecord, Window
from offsite.log.range import PartitionId
from tests.cut_judge import group_violations, violations

CLUSTERS = 1_500
CHECKPOINT = 7
ORDERS = tuple(PartitionId("orders", "id", number) for number in range(2))
PAID = tuple(PartitionId("paid", "id", number) for number in range(2))
SHIPPED = PartitionId("shipped", "id", 0)
OFFSETS = PartitionId("__consumer_offsets", "id", 3)
DATA = (*ORDERS, *PAID, SHIPPED)
INPUTS = {"billing-0": ORDERS[:1], "billing-1": ORDERS[1:], "shipping": PAID}

Place = tuple[PartitionId, int]
GroupKey = tuple[str, PartitionId]


@dataclass
class Written:
    """A record: its stamp, what it was made from, and whether it is a marker."""

    stamp: int
    cause: Place | None = None
    is_marker: bool = False


@dataclass
class Worker:
    """`buffered`: produced and not delivered yet. `written`: the highest offset delivered since the last commit."""

    name: str
    number: int = 0
    positions: dict[PartitionId, int] = field(default_factory=dict)
    buffered: list[tuple[PartitionId, Written]] = field(default_factory=list)
    written: dict[PartitionId, int] = field(default_factory=dict)


@dataclass
class Cluster:
    random: Random
    logs: dict[PartitionId, list[Written]] = field(default_factory=lambda: {each: [] for each in DATA})
    commits: list[GroupCommit] = field(default_factory=list)
    numbers: dict[GroupKey, int] = field(default_factory=dict)
    workers: list[Worker] = field(default_factory=list)
    opened: int = 0
    base: dict[PartitionId, int] = field(default_factory=dict)
    snapshot: dict[GroupKey, int] = field(default_factory=dict)
    ends: dict[PartitionId, int] = field(default_factory=dict)

    def run(self, steps: int) -> None:
        for _ in range(self.random.randrange(steps)):
            self.step()

    def step(self) -> None:
        worker = self.random.choice(self.workers)
        kind = self.random.choices(("order", "handle", "deliver", "commit", "crash"), (4, 8, 6, 3, 0.4))[0]
        match kind:
            case "order":
                self.logs[self.random.choice(ORDERS)].append(Written(stamp=0))
            case "handle":
                self.handle(worker)
            case "deliver":
                self.deliver(worker)
            case "commit":
                self.commit(worker)
            case "crash":
                self.workers[self.workers.index(worker)] = self.started(worker.name)

    def started(self, name: str) -> Worker:
        group = name.split("-", maxsplit=1)[0]
        at = {each: self.committed().get((group, each), 0) for each in INPUTS[name]}
        known = [self.numbers.get((group, each), 0) for each in INPUTS[name]]
        return Worker(name=name, positions=at, number=max(self.opened, *known))

    def handle(self, worker: Worker) -> None:
        ready = [each for each, at in worker.positions.items() if at < len(self.logs[each])]
        if not ready:
            return
        source = self.random.choice(ready)
        at = worker.positions[source]
        record = self.logs[source][at]
        worker.number = max(worker.number, record.stamp)
        worker.positions[source] = at + 1
        if not record.is_marker:
            target = SHIPPED if source in PAID else self.random.choice(PAID)
            worker.buffered.append((target, Written(stamp=worker.number, cause=(source, at))))

    def deliver(self, worker: Worker) -> None:
        """Any partition first: nothing is kept in order between them."""
        if worker.buffered:
            target = self.random.choice(worker.buffered)[0]
            place = next(number for number, each in enumerate(worker.buffered) if each[0] == target)
            worker.written[target] = len(self.logs[target])
            self.logs[target].append(worker.buffered.pop(place)[1])

    def commit(self, worker: Worker) -> None:
        while worker.buffered:
            self.deliver(worker)
        outputs = None if self.random.random() < 0.03 else tuple(sorted(worker.written.items()))
        group = worker.name.split("-")[0]
        for partition, offset in worker.positions.items():
            self.numbers[group, partition] = worker.number
            position = len(self.commits)
            self.commits.append(GroupCommit(
                group=group, partition=partition, offset=offset, log=OFFSETS, position=position, outputs=outputs
            ))  # fmt: skip
        worker.written = {}

    def committed(self) -> dict[GroupKey, int]:
        return {(each.group, each.partition): each.offset for each in self.commits}

    def window(self) -> Window:
        stamped = [self._first(each) for each in DATA]
        commits = self.commits[: self.ends[OFFSETS]]
        return Window(stamped=tuple(each for each in stamped if each), commits=tuple(commits))

    def _first(self, partition: PartitionId) -> StampedRecord | None:
        for offset in range(self.base[partition], self.ends[partition]):
            if (stamp := self.logs[partition][offset].stamp) >= CHECKPOINT:
                return StampedRecord(partition=partition, offset=offset, stamp=stamp)
        return None


def random_cluster(seed: int) -> Cluster:
    """The opener's order: groups, high watermarks, the opening, markers, ends; applications run in between."""
    cluster = Cluster(random=Random(seed))
    cluster.workers = [cluster.started(name) for name in INPUTS]
    cluster.run(80)
    cluster.snapshot = cluster.committed()
    base_commits = len(cluster.commits)
    cluster.run(6)
    for each in cluster.random.sample(DATA, len(DATA)):
        cluster.base[each] = len(cluster.logs[each])
        cluster.run(4)
    cluster.opened = CHECKPOINT
    for each in cluster.random.sample(DATA, len(DATA)):
        cluster.run(12)
        cluster.logs[each].append(Written(stamp=CHECKPOINT, is_marker=True))
    for each in cluster.random.sample((*DATA, OFFSETS), len(DATA) + 1):
        cluster.run(12)
        cluster.ends[each] = len(cluster.commits) if each == OFFSETS else len(cluster.logs[each])
    # What the groups' snapshot has, it has for certain: its outputs lie below the high watermarks that were read later.
    cluster.commits[:base_commits] = [replace(each, outputs=()) for each in cluster.commits[:base_commits]]
    return cluster


@cache
def clusters() -> tuple[Cluster, ...]:
    return tuple(random_cluster(seed) for seed in range(CLUSTERS))


def wrong(cluster: Cluster, cut: Cut) -> str:
    """What is wrong with a cut, by everybody who can tell; empty for nothing."""
    window = cluster.window()
    groups = cluster.snapshot | {(each.group, each.partition): each.offset for each in cut.groups}
    if loses(cluster, cut.ends, groups):
        return "an output is lost"
    if orphans(cluster, cut.ends):
        return "a cause is not kept"
    if next(violations(cut.ends, (), window), None):
        return "inconsistent"
    if next(group_violations(cut.ends, (), cut.groups, window), None):
        return "groups"
    ranges = [range(cut.ends[each], min(cut.ends[each] + 2, cluster.ends[each] + 1)) for each in DATA]
    for ends in product(*ranges):
        candidate = {**cluster.ends, **dict(zip(DATA, ends, strict=True))}
        if candidate != cut.ends and next(violations(candidate, (), window), None) is None:
            return "not the greatest"
    return ""


def orphans(cluster: Cluster, ends: dict[PartitionId, int] | object) -> bool:
    """Whether a kept record was made from one that is not kept."""
    kept = (each for partition in DATA for each in cluster.logs[partition][: ends[partition]])  # type: ignore[index]
    return any(each.cause is not None and each.cause[1] >= ends[each.cause[0]] for each in kept)  # type: ignore[index]


def loses(cluster: Cluster, ends: object, groups: dict[GroupKey, int]) -> bool:
    """Whether an input counts as read of which no output is kept."""
    made = {
        each.cause
        for partition in DATA
        for each in cluster.logs[partition][: ends[partition]]  # type: ignore[index]
    }
    inputs = ((source, at) for (_, source), offset in groups.items() for at in range(offset))
    return any(not cluster.logs[at[0]][at[1]].is_marker and at not in made for at in inputs)


def cut_of(cluster: Cluster) -> Cut:
    return greatest_cut(cluster.ends, cluster.window())


def test_keeps_causes_and_outputs_and_nothing_above_does() -> None:
    for seed, cluster in enumerate(clusters()):
        assert not (found := wrong(cluster, cut_of(cluster))), f"seed {seed}: {found}"


def test_clusters_are_worth_it() -> None:
    cuts = [cut_of(each) for each in clusters()]
    assert sum(len(cut.holds) > 2 for cut in cuts) > CLUSTERS // 2
    pairs = zip(cuts, clusters(), strict=True)
    early = [group_offsets.first_without_outputs(cut.ends, each.window()) for cut, each in pairs]
    assert sum(bool(each) for each in early) > CLUSTERS // 4


def test_without_stamps_the_same_clusters_break() -> None:
    """The negative control: the ends and groups as they were read."""
    raw = [{(each.group, each.partition): each.offset for each in cluster.window().commits} for cluster in clusters()]
    assert sum(orphans(each, each.ends) for each in clusters()) > CLUSTERS // 10
    assert sum(loses(each, each.ends, groups) for each, groups in zip(clusters(), raw, strict=True)) > CLUSTERS // 50


def _no_stamps(window: Window) -> Iterator[Effect]:
    return effects(replace(window, stamped=()))


def _moved(by: int) -> Callable[[Window], Iterator[Effect]]:
    def made(window: Window) -> Iterator[Effect]:
        stamped = (replace(each, offset=max(0, each.offset + by)) for each in window.stamped)
        return effects(replace(window, stamped=tuple(stamped)))

    return made


def _at_the_last(ends: object, window: Window) -> dict[GroupKey, int]:
    """The last commit without outputs taken for the first."""
    found: dict[GroupKey, int] = {}
    for commit in window.commits:
        if not group_offsets._has_outputs(commit, ends, ()):  # type: ignore[arg-type]
            found[commit.group, commit.partition] = commit.position
    return found


def _any_is_kept(commit: GroupCommit, ends: object, _topics: object) -> bool:
    """`*` taken for no outputs."""
    return all(offset < ends[at] for at, offset in commit.outputs or ())  # type: ignore[index]


MISTAKES = {
    "stamps are ignored": (greatest, "effects", _no_stamps, "a cause is not kept"),
    "the first stamped record is kept": (greatest, "effects", _moved(1), "inconsistent"),
    "one record too few": (greatest, "effects", _moved(-1), "not the greatest"),
    "outputs are ignored": (group_offsets, "first_without_outputs", lambda *_: {}, "an output is lost"),
    "a later commit counts": (group_offsets, "first_without_outputs", _at_the_last, "an output is lost"),
    "any outputs are none": (group_offsets, "_has_outputs", _any_is_kept, "groups"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_caught(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, name, made, finding = MISTAKES[mistake]
    monkeypatch.setattr(place, name, made)
    assert finding in {wrong(each, cut_of(each)) for each in clusters()}


def test_what_was_written_to_a_partition_that_was_made_since_is_not_kept() -> None:
    """Of a topic that is backed up; what lies in others is no part of any cut."""
    orders, new, elsewhere = (PartitionId(*each) for each in (("a", "id", 0), ("a", "id", 1), ("b", "", 0)))
    for output, expected in ((new, ()), (elsewhere, (4,))):
        commit = GroupCommit(group="g", partition=orders, offset=4, log=OFFSETS, position=0, outputs=((output, 7),))
        window = Window(commits=(commit,))
        cut = greatest.greatest_cut({orders: 9, OFFSETS: 1}, window)
        assert tuple(each.offset for each in cut.groups) == expected
        assert not list(group_violations(cut.ends, (), cut.groups, window))
