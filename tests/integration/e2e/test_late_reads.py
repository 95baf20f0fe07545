"""A tombstone that brokers removed between two runs: the second run, the status and every restore after it say that the
key may come back, and it does."""

from __future__ import annotations

import time

import pytest

from offsite.demo.data import DemoMessage
from offsite.engine.runner import Runner
from offsite.overview.status import read_status
from offsite.restore.plan_report import report_plan
from tests.inline_runner import CrossingRunner
from tests.integration.e2e.site import Site, new_name
from tests.integration.kafka.cluster import wait_until

CLEANED = {"cleanup_policy": "compact", "segment_ms": "500", "min_cleanable_dirty_ratio": "0.01"}
TOLD = "a restore may bring back keys of "


@pytest.fixture(scope="module")
def spark() -> Runner:
    """None: the brokers' cleaner is on trial."""
    return CrossingRunner()


def write(site: Site, topic: str, **values: bytes | None) -> None:
    now_ms = time.time_ns() // 1_000_000  # brokers roll a segment by the times of its records
    for key, value in values.items():
        site.produce(topic, [DemoMessage(key=key.encode(), value=value, timestamp_ms=now_ms)])


def read(site: Site, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for record in site.read(topic)[0]]


@pytest.mark.timeout(150)
def test_a_tombstone_that_vanished_between_two_runs_is_told_and_its_key_comes_back(site: Site) -> None:
    late = site.make_topic(**CLEANED, delete_retention_ms="1000")
    in_time = site.make_topic(**CLEANED, delete_retention_ms="3600000")
    full = site.make_topic(cleanup_policy="compact", delete_retention_ms="1000")
    topics = (late, in_time, full)
    for topic in topics:
        write(site, topic, erased=b"a person", kept=b"1")
    assert site.back_up(*topics).late == ()
    for topic in topics:
        write(site, topic, erased=None, kept=b"2")

    def cleaned() -> bool:
        for topic in (late, in_time):
            write(site, topic, tick=b"tock")
        gone = all(key != b"erased" for key, _ in read(site, late))
        return gone and (b"kept", b"1") not in read(site, in_time)

    wait_until(cleaned, limit_s=120)
    assert (b"erased", None) in read(site, in_time)
    result = site.back_up()
    assert ([topic.topic for topic in result.late], result.complete) == ([late], True)
    (status,) = read_status(site.repository).backups
    (note,) = (note for note in status.notes if "deleted keys" in note)
    assert f"deleted keys of {late} (" in note
    for topic in topics:
        target = new_name(topic)
        prepared = site.prepare(topic, target)
        assert sum(TOLD in note for note in report_plan(prepared).notes) == (topic == late)
        assert sum(TOLD in note for note in site.restore(topic, target).notes) == (topic == late)
        latest = dict(read(site, target))
        assert (latest[b"kept"], latest[b"erased"]) == (b"2", b"a person" if topic == late else None)
    assert not any(TOLD in note for note in report_plan(site.prepare(late, new_name(late), commit=1)).notes)
