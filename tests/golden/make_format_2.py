"""How `format-2` was made, once: `python -m tests.golden.make_format_2 FOLDER`. It never changes once released.

A backup that followed its topics: segments in packs, roll-ups, commits of a pass that was not complete yet, a log that
was cut back, catalogs in parts.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from unittest import mock

from offsite.backup.copy import BackupEnds
from offsite.backup.copy_pass import CommitThresholds
from offsite.backup.options import BackupRequest
from offsite.backup.plan import plan_backup
from offsite.model.options import CompressionChoice
from offsite.model.selection import parse_selection
from offsite.repository import catalog
from offsite.upkeep import roll_up as roll_up_module
from offsite.upkeep.roll_up import roll_up_step
from tests.fake_cluster.site import BACKUP, Site, open_site
from tests.inline_runner import InlineRunner

POINTS: dict[int, list[bytes]] = {
    2: [b"a", b"b"],
    4: [b"a", b"b", b"c", b"d", b"e"],
    6: [b"a", b"b", b"c", b"x"],
    7: [b"a", b"b", b"c", b"x", b"z"],
}
"""What the first partition of `orders` holds at some commits."""


def run(site: Site, *, every: CommitThresholds | None = None) -> None:
    request = BackupRequest(backup=BACKUP, selection=parse_selection(["*"]), compression=CompressionChoice.NONE)
    plan = plan_backup(site.repository, site.source.admin, request, slots=1, packed_from=2)
    site.carry_out(plan, thresholds=every)


def roll_up(site: Site) -> None:
    state = site.backup.state()
    ends = BackupEnds(
        kafka=site.source.config,
        store=site.repository.store,
        layout=site.backup.layout,
        compression=CompressionChoice.NONE,
    )
    assert roll_up_step(site.backup, state, sorted(state.segments), runner=InlineRunner(), ends=ends)


def write(site: Site, *values: bytes) -> None:
    """As many batches, and one record more in every other partition."""
    for value in values:
        site.source.write("orders", [value])
    site.source.write("orders", [b"other"], partition=1)
    site.source.write("users", [b"user"])


def make(site: Site) -> None:
    site.source.make_topic("orders", partitions=2)
    site.source.make_topic("users")
    with (
        mock.patch.object(roll_up_module, "FAN_IN", 2),
        mock.patch.object(catalog, "COMMITS_PER_CATALOG", 3),
    ):
        write(site, b"a", b"b")
        run(site, every=CommitThresholds(bytes=1, times_longer=0))  # commits 1, incomplete, and 2
        write(site, b"c")
        run(site)
        write(site, b"d", b"e")
        run(site)
        roll_up(site)
        site.source.topics["orders"].partitions[0].elect(cut_to=3)
        site.source.write("orders", [b"x"])
        run(site)
        write(site, b"z")
        run(site)


if __name__ == "__main__":
    with open_site(Path(sys.argv[1])) as made:
        make(replace(made))
