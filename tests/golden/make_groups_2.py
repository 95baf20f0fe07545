"""How `groups-2` was made, once: `python -m tests.golden.make_groups_2 FOLDER`. It never changes once released.

Groups of every kind. The snapshot with share groups is of format 2, and lies between two of format 1. The cluster has
settings of a group and of all brokers.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from offsite.kafka.protocol.configs import GROUP
from tests.fake_cluster.cluster import OF_ALL_BROKERS, FakeGroup
from tests.fake_cluster.site import Site, open_site
from tests.golden.make_format_2 import run


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeGroup:
    """`offsets` on `jobs` by partition, -1 for none. `reset`: of a share group, where it begins without a position."""

    kind: str
    offsets: tuple[int, int]
    reset: str = ""


_COMMITTING = {
    "app": MadeGroup(kind="streams", offsets=(1, 1)),
    "next": MadeGroup(kind="consumer", offsets=(2, 0)),
    "readers": MadeGroup(kind="classic", offsets=(1, 2)),
}
_STARTERS = MadeGroup(kind="share", offsets=(-1, 2), reset="earliest")
POINTS: Mapping[int, Mapping[str, MadeGroup]] = {
    1: _COMMITTING,
    2: _COMMITTING | {"starters": _STARTERS, "workers": MadeGroup(kind="share", offsets=(1, -1), reset="latest")},
    3: _COMMITTING,
}
FORMATS = {1: 1, 2: 2, 3: 1}
"""Of the group snapshots of the commits."""
SETTINGS = {
    ("brokers", ""): {"log.cleaner.threads": "1"},
    ("groups", "workers"): {"consumer.session.timeout.ms": "50000", "share.auto.offset.reset": "latest"},
}
"""As of commit 2."""


def make(site: Site) -> None:
    source = site.source
    source.has_share_groups = source.sets_positions = True
    source.dynamic[OF_ALL_BROKERS] = ["log.cleaner.threads"]
    source.configured = {GROUP: ["workers"]}
    source.make_topic("jobs", partitions=2)
    for groups in POINTS.values():
        for partition in range(2):
            source.write("jobs", [b"a", b"b", b"c"], partition=partition)
        source.groups = {name: FakeGroup(kind=group.kind, reset=group.reset) for name, group in groups.items()}
        for name, group in groups.items():
            source.commit_group(name, "jobs", group.offsets)
        run(site)


if __name__ == "__main__":
    with open_site(Path(sys.argv[1])) as made:
        make(made)
