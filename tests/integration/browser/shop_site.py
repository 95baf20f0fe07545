"""A shop with days of history, for pictures: topics of several sizes, a compacted one, transactions, groups, an outage
with a hole, checkpoints, pins, checks, drills, a topic that is gone at the source, and records that no commit has.

What is in it follows from the beginning of its history alone. Made by a double of Kafka, under a shifted clock.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import cast

from offsite.cli.output import plain
from offsite.jobs.ask import JobRequest, request_job
from offsite.model.clock import SystemClock
from offsite.model.selection import parse_selection
from offsite.model.untrusted.json_object import JsonValue
from offsite.repository.snapshots.check_records import decode_drill_record, put_drill_report
from offsite.restore.drill import Drill, DrillRequest
from offsite.restore.drill_report import DrillReport, drill_page
from offsite.upkeep.compaction.plan import CompactionRequest, plan_compaction
from offsite.upkeep.compaction.run import compact
from offsite.upkeep.retention.pins import pin_point
from offsite.upkeep.verification.last_checks import CheckMemory, remember_check
from offsite.upkeep.verification.run import verify_deep, verify_quick
from tests.fake_cluster.site import Site, open_site
from tests.integration.browser.served import take_checkpoint
from tests.shifted_clock import shifted_clock
from tests.virtual_time import VirtualClock

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
EVERY_MS, RUNS, LAST_MS = 2 * HOUR_MS, 42, 6 * MINUTE_MS
"""The time between two runs, their number, and how long ago the last one was."""
OUTAGE = range(20, 24)
"""Runs that did not happen: the source deleted records meanwhile."""
DAY = (1, 1, 1, 2, 4, 7, 9, 10, 9, 8, 5, 2)
"""How much a shop sells, by two hours."""
MEAN_LINES = {"orders": 240, "payments": 90, "clicks": 400, "customers": 40, "shipments": 60, "audit": 12}
RESTORE_S, COMPARE_S = 4.2, 1.3
"""What a drill says that it took, whatever it did here."""
_CHECKED, _VERIFIED, _DRILLED, _CHECKPOINTS, _PINNED = range(3, RUNS, 6), (9, 30), (12, 39), (14, 26, 38), 18


@contextmanager
def shop_site(folder: Path, now_ms: int) -> Iterator[Site]:
    """The site, whose history ends at `now_ms`, epoch ms."""
    with open_site(folder) as site, shifted_clock(now_ms - LAST_MS - (RUNS - 1) * EVERY_MS) as clock:
        source = site.source
        source.make_topic("orders", partitions=3, retention_ms=str(12 * HOUR_MS))
        source.make_topic("payments", partitions=2, retention_ms=str(2 * DAY_MS))
        source.make_topic("clicks", retention_ms=str(6 * HOUR_MS))
        source.make_topic("customers", cleanup_policy="compact")
        source.make_topic("shipments")
        source.make_topic("audit", retention_ms="-1")
        dice = random.Random(7)
        for run in range(RUNS):
            _sell(site, run, clock.now_ms(), dice)
            if run in OUTAGE:
                _delete_old(site)
            else:
                site.back_up(*([] if run else ["*"]))
                _keep_up(site, run, clock)
            clock.pass_ms(EVERY_MS)
        clock.set_ms(now_ms)
        _sell(site, RUNS, now_ms - MINUTE_MS, dice)
        del source.topics["shipments"]
        yield site


def _sell(site: Site, run: int, now_ms: int, dice: random.Random) -> None:
    """What was sold in the minutes before a run, the newest of it seconds ago."""
    for topic, mean in MEAN_LINES.items():
        partitions = len(site.source.topics[topic].partitions)
        for partition in range(partitions):
            count = max(1, mean * DAY[run % len(DAY)] * dice.randrange(60, 140) // 400 // partitions)
            values = [_line(topic, run, number, dice) for number in range(count)]
            time_ms = now_ms - dice.randrange(1_000, 90_000)
            if topic == "payments":
                site.source.write_in_transaction(
                    topic, values, committed=dice.random() < 0.95, partition=partition, time_ms=time_ms
                )
            else:
                key = f"{topic}-{run % 5}-{partition}".encode()
                site.source.write(topic, values, partition=partition, key=key, time_ms=time_ms)
    ends = [log.end for log in site.source.topics["orders"].partitions]
    site.source.commit_group("billing", "orders", [max(0, end - 3) for end in ends])
    site.source.commit_group("shipping", "payments", [log.end for log in site.source.topics["payments"].partitions])


def _line(topic: str, run: int, number: int, dice: random.Random) -> bytes:
    sold = f'"id": {run * 1000 + number}, "customer": {dice.randrange(10_000)}, "amount": {dice.randrange(5, 900)}'
    page = f', "page": "{dice.randbytes(30).hex()}"' if topic == "clicks" else ""
    return f'{{"type": "{topic.removesuffix("s")}", {sold}{page}}}'.encode()


def _delete_old(site: Site) -> None:
    log = site.source.topics["clicks"].partitions[0]
    log.delete_before(log.end - 10)


def _keep_up(site: Site, run: int, clock: VirtualClock) -> None:
    """What follows a run now and then."""
    clock.pass_ms(MINUTE_MS)
    if run in _CHECKED:
        remember_check(site.backup, verify_quick(site.backup))
    if run in _VERIFIED:
        remember_check(site.backup, verify_deep(site.backup, site.runner))
    if run in _DRILLED:
        _drill(site)
    if run in _CHECKPOINTS:
        take_checkpoint(site, run)
    if run == _PINNED:
        pin_point(site.backup, site.backup.readable_state().seq, reason="before the new checkout")
        compact(site.backup, plan_compaction(site.backup, CompactionRequest(min_dirty_ratio=0.0)), runner=site.runner)
        request_job(
            site.repository.store,
            JobRequest(kind="drill", arguments=("restore", "drill"), backup=site.backup.descriptor.name, by="ann"),
        )
    clock.pass_ms(-MINUTE_MS)


def _drill(site: Site) -> None:
    def keep(report: DrillReport) -> None:
        report = replace(report, restore_s=RESTORE_S, compare_s=COMPARE_S)
        backup = site.backup
        document = cast("dict[str, JsonValue]", plain(report))
        files = put_drill_report(backup.record_store, backup.layout, report.drill, document, drill_page(report))
        key = backup.layout.drill_key(report.drill, "json")
        CheckMemory(backup=backup).note_drill(decode_drill_record(files["json"], key))

    Drill(
        site.backup,
        DrillRequest(
            selection=parse_selection(["*"]), commit=None, in_sandbox=False, by="ann", versions={"Kafka": "4.1.1"}
        ),
        cluster=site.target.connected,
        runner=site.runner,
        clock=SystemClock(),
        on_report=keep,
    ).run()
