"""Follow, roll up and collect beside a real broker: every restore point and every micro-batch stays what it was."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import pytest

from offsite.backup.options import BackupRequest
from offsite.backup.outages import Outages
from offsite.demo.data import BASE_MS, DemoMessage
from offsite.follow.follower import Follower, FollowSettings, FollowTimes, Round
from offsite.model.clock import SystemClock
from offsite.model.selection import parse_selection
from offsite.repository import catalog
from offsite.table.options import read_options
from offsite.table.stream import TableStream
from offsite.upkeep import roll_up
from offsite.upkeep.collection.run import collect, plan_collection
from offsite.upkeep.verification.leftovers import find_leftovers
from tests.integration.e2e.site import BACKUP, Site, new_name, values

ROUNDS = 16
ROUNDS_MAX = 200
FAN_IN = 4


class Rounds:
    """A clock that does something before each round, and ends the run when that says so."""

    def __init__(self, before: Callable[[int], bool]) -> None:
        self._real, self._numbers, self._before = SystemClock(), itertools.count(), before

    def now_ms(self) -> int:
        return self._real.now_ms()

    def monotonic_s(self) -> float:
        return self._real.monotonic_s()

    def sleep(self, duration_s: float) -> None:  # rounds follow each other at once
        if not self._before(next(self._numbers)):
            raise KeyboardInterrupt


def micro_batch(site: Site, start: int, end: int) -> list[tuple[int, int, bytes, int]]:
    options = read_options({"repo": site.repository.store.url, "backup": site.backup.descriptor.name})
    following = TableStream(options, site.backup)
    parts = following.partitions({"commit": start}, {"commit": end})
    rows = [row for each in parts for batch in following.read(each) for row in batch.to_pylist()]
    return [(row["partition"], row["offset"], bytes(row["value"]), row["commit"]) for row in rows]


@pytest.mark.soak
def test_what_is_rolled_up_and_collected_changes_no_restore_point_and_no_micro_batch(  # one story
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "COMMITS_PER_CATALOG", 2)
    monkeypatch.setattr(roll_up, "FAN_IN", FAN_IN)
    topic = site.make_topic(partitions=2)
    rows: dict[int, list[tuple[int, int, bytes, int]]] = {}
    counts: dict[int, int] = {}
    deleted: set[str] = set()
    known: set[str] = set()

    def write(number: int) -> bool:
        """Write for one round more, until enough was seen to go: a pass rests for a second before the next."""
        if number >= ROUNDS_MAX or (number >= ROUNDS and kinds() == {True, False}):
            return False
        messages = (
            DemoMessage(key=b"%d" % n, value=b"%d-%d" % (number, n), timestamp_ms=BASE_MS + n) for n in range(40)
        )
        site.produce(topic, messages)
        prefixes = (site.backup.layout.packs_prefix, site.backup.layout.topics_prefix) if rows else ()
        now = {each.key for prefix in prefixes for each in site.repository.store.list(prefix)}
        deleted.update(known - now)
        known.update(now)
        return True

    def kinds() -> set[bool]:
        return {"packs" in key for key in deleted}

    def ended(each: Round) -> None:
        if each.result is not None:
            commit = each.result.commit
            rows[commit] = micro_batch(site, commit - 1, commit)
            counts[commit] = sum(position.end for position in each.state.positions.values())

    follow = FollowSettings(
        repository=site.repository,
        cluster=site.cluster,  # type: ignore[arg-type]
        runner=site.spark,
        request=BackupRequest(backup=BACKUP, selection=parse_selection([topic])),
        times=FollowTimes(interval_s=0.5, collect_after_s=0),
    )
    write(-1)
    clock = Rounds(write)
    outages = Outages(give_up_after_s=5, clock=clock, on_outage=lambda _: None)
    with pytest.raises(KeyboardInterrupt):
        Follower(follow, outages=outages, clock=clock, on_round=ended).run()
    assert len(rows) >= ROUNDS
    backup = site.backup
    for _ in range(2):
        site.back_up()
    collect(backup, plan_collection(backup, clock=SystemClock(), grace_ms=0), runner=site.spark)
    assert kinds() == {True, False}, "packs and segments went between rounds"
    assert len(rows[1]) == 40
    for commit, then in rows.items():
        assert micro_batch(site, commit - 1, commit) == then
    whole = micro_batch(site, 0, backup.state().seq)
    assert sorted(whole) == sorted(row for found in rows.values() for row in found)
    chosen = random.Random(1).sample(sorted(counts), 3)
    source = site.read(topic)
    for commit in chosen:
        target = new_name(topic)
        restored = site.restore(topic, target, commit=commit)
        assert restored.verified
        found = site.read(target)
        assert sum(map(len, found.values())) == counts[commit]
        for partition in (0, 1):
            there = values(found, partition) if partition in found else []
            assert there == values(source, partition)[: len(there)]
    site.assert_verified()
    assert find_leftovers(site.repository, backup, staged=(), listed=True).objects == 0
