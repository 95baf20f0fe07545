"""How long a restore may take is told by finished restores alone."""

from __future__ import annotations

import os
from pathlib import Path

from offsite.restore.pace import MeasuredRestore, describe_time, measured_restores
from tests.fake_cluster.site import Site

SOON = MeasuredRestore(restore="r", size_bytes=1000, took_s=10.0, is_same_cluster=True)


def test_nothing_is_told_without_a_finished_restore(site: Site) -> None:
    site.source.make_topic("orders")
    site.source.write("orders", [b"a"])
    site.back_up("*")
    assert measured_restores(site.backup, "target") == ()
    assert describe_time((), 10).startswith("unknown")


def test_a_restore_is_measured_from_its_record_to_its_report_by_one_process(site: Site) -> None:
    site.source.make_topic("orders")
    site.source.write("orders", [b"a"])
    site.back_up("*")
    site.restore()
    (folder,) = Path(site.repository.store.url, "backups", "nightly", "restores").iterdir()
    began_s = Path(folder, "restore.json").stat().st_mtime
    os.utime(Path(folder, "report.json"), (began_s + 30, began_s + 30))
    (measured,) = measured_restores(site.backup, "target")
    assert (round(measured.took_s), measured.is_same_cluster) == (30, True)
    assert not measured_restores(site.backup, "elsewhere")[0].is_same_cluster
    Path(folder, "lease", "00000002.claim.json").write_text("{}")
    assert measured_restores(site.backup, "target") == (), "nobody knows how long it stood still"


def test_a_restore_without_a_proof_or_a_report_is_no_measure(site: Site) -> None:
    site.source.make_topic("orders")
    site.source.write("orders", [b"a"])
    site.back_up("*")
    site.restore(verify=False)
    assert measured_restores(site.backup, "target") == ()


def test_a_smaller_restore_is_told_to_take_as_long_and_a_larger_one_longer() -> None:
    assert describe_time([SOON], 10).startswith("10.0 s, proof included, by the last restore or drill")
    assert describe_time([SOON], 6_000).startswith("1 min 00 s")
    assert "a rough guess, as none had more than 1000 B" in describe_time([SOON], 60_000)


def test_a_range_is_told_by_several() -> None:
    quick = MeasuredRestore(restore="q", size_bytes=1000, took_s=5.0, is_same_cluster=False)
    text = describe_time([quick, SOON], 1000)
    assert text.startswith("5.0 s to 10.0 s")
    assert "into another cluster" in text
