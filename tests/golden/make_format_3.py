"""How `format-3` was made, once: `python -m tests.golden.make_format_3 FOLDER`. It never changes once released.

A backup that lets go: a pinned point on an island of its own, a closed history of which a part went, a compacted topic,
catalogs with all of that.
"""

from __future__ import annotations

import sys
from pathlib import Path
from unittest import mock

from offsite.model.clock import SystemClock
from offsite.repository import catalog
from offsite.upkeep.compaction.plan import CompactionRequest, plan_compaction
from offsite.upkeep.compaction.run import compact
from offsite.upkeep.retention.apply import apply_retention, plan_retention
from offsite.upkeep.retention.pins import pin_point
from offsite.upkeep.retention.policy import parse_policy
from tests.fake_cluster.site import Site, open_site
from tests.golden.make_format_2 import run
from tests.inline_runner import InlineRunner

POINTS: dict[int, list[bytes]] = {
    2: [b"a", b"b", b"c"],
    6: [b"g", b"h"],
    10: [b"g", b"h"],
}
"""What `orders` holds at some of the points that are left: whole segments."""
LATEST: dict[int, list[bytes]] = {
    2: [b"k1-2", b"k2-2"],
    6: [b"k1-2", b"k2-2", b"k1-5", b"k2-5"],
    10: [b"k1-2", b"k2-2", b"k1-5", b"k2-5", b"k1-6", b"k2-6"],
}
"""What `prices` holds at them, compacted between them."""


def write(site: Site, *values: bytes, price: int) -> None:
    for value in values:
        site.source.write("orders", [value])
    for key in (b"k1", b"k2"):
        site.source.write("prices", [b"%s-%d" % (key, price)], key=key)


def trim(site: Site, offset: int) -> None:
    site.source.topics["orders"].partitions[0].delete_before(offset)


def let_go(site: Site) -> None:
    """Keep the pin and the newest point of the hour."""
    clock = SystemClock()
    plan = plan_retention(site.backup, parse_policy(keep_hourly=1), clock=clock)
    assert apply_retention(site.backup, plan, clock=clock).commit


def compact_all(site: Site) -> None:
    plan = plan_compaction(site.backup, CompactionRequest(min_dirty_ratio=0.0))
    assert compact(site.backup, plan, runner=InlineRunner()).regions


def make(site: Site) -> None:
    site.source.make_topic("orders")
    site.source.make_topic("prices", cleanup_policy="compact")
    with mock.patch.object(catalog, "COMMITS_PER_CATALOG", 3):
        write(site, b"a", b"b", price=1)
        run(site)
        trim(site, 1)
        write(site, b"c", price=2)
        run(site)
        pin_point(site.backup, 2, reason="end of the month")  # commit 3
        write(site, b"d", b"e", price=3)
        trim(site, 3)
        run(site)
        site.source.topics["orders"].partitions[0].elect(cut_to=4)
        write(site, b"f", price=4)
        run(site)
        write(site, b"g", b"h", price=5)
        trim(site, 5)
        run(site)  # commit 6
        let_go(site)
        compact_all(site)
        write(site, price=6)
        run(site)
        run(site)


if __name__ == "__main__":
    with open_site(Path(sys.argv[1])) as made:
        make(made)
