"""Ten thousand groups with a hundred partitions each: a million offsets read, stored, translated and committed."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from offsite.demo.data import BASE_MS, DemoMessage
from offsite.groups.restored_offsets import load_restored_offsets
from offsite.groups.run import GroupsRequest, apply_groups, prepare_groups
from offsite.groups.undo import find_change, undo_groups
from offsite.log.group_offsets import CommittedOffset, GroupOffsets, TopicOffsets
from offsite.model.units import KIB, MIB
from tests.integration.e2e.site import Site, new_name

GROUPS, PARTITIONS, RECORDS = 10_000, 100, 20
LIMIT_S = 60
GROWTH_MAX_BYTES = 600 * MIB


@contextmanager
def measured(what: str, taken_s: dict[str, float]) -> Iterator[None]:
    began_s = time.monotonic()
    yield
    taken_s[what] = time.monotonic() - began_s


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_million_offsets_are_saved_and_put_in_place_within_a_minute(site: Site) -> None:
    topic = site.make_topic(partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        messages = (
            DemoMessage(key=b"k", value=b"v", timestamp_ms=BASE_MS, partition=partition) for _ in range(RECORDS)
        )
        site.produce(topic, messages)
    rows = [CommittedOffset(partition, partition % (RECORDS + 1), 0, "") for partition in range(PARTITIONS)]
    offsets = (TopicOffsets.of(topic, rows),)
    names = [f"many-{number:05d}" for number in range(GROUPS)]
    admin = site.cluster.admin
    assert admin.groups.commit({name: GroupOffsets(group=name, topics=offsets) for name in names}) == ()
    site.back_up(topic)  # Spark and its workers are warm from here on, and the snapshot is stored
    before_bytes = peak_bytes()
    taken_s: dict[str, float] = {}
    with measured("backup with its snapshot", taken_s):
        saved = site.back_up().groups
    assert saved is not None
    assert saved.offsets == GROUPS * PARTITIONS
    restore = site.restore(topic, new_name(topic)).restore
    with measured("plan", taken_s):
        planned = prepare_groups(site.backup, admin, GroupsRequest(restore=restore))
    with measured("apply", taken_s):
        result = apply_groups(planned, admin)
    assert (result.groups, result.offsets_set, result.failed) == (GROUPS, GROUPS * PARTITIONS, ())
    print(taken_s, f"{(peak_bytes() - before_bytes) / MIB:.0f} MiB more")  # noqa: T201  # figures for the report
    assert sum(taken_s.values()) < LIMIT_S, taken_s
    assert peak_bytes() - before_bytes < GROWTH_MAX_BYTES
    target = load_restored_offsets(site.backup, restore).topics[topic].target
    listed = [each for each in admin.groups.list() if each.group == names[-1]]
    found = {each.topic: each.by_partition() for each in admin.groups.offsets(listed).groups[names[-1]].topics}
    assert found[target] == found[topic] == {row.partition: row.offset for row in rows}
    undone = undo_groups(site.backup, admin, find_change(site.backup, admin, result.change))
    assert (undone.offsets_removed, undone.failed) == (GROUPS * PARTITIONS, ())
