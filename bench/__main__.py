"""`python -m bench [--quick]`: measure, print the table, write `bench/results/latest.json`. About ten minutes.

`--quick` moves a tenth, once, in two minutes: it shows that everything runs, its figures say little, and it writes no
file unless `--out` names one. Works in a temporary folder only, with a broker of its own.
"""

from __future__ import annotations

import argparse
import tempfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from bench import kafka_tools
from bench.avro_export import measure_avro_export
from bench.checksums import measure_checksums
from bench.cluster import Cluster, running_cluster
from bench.copies import Copies
from bench.machine import describe_machine
from bench.payload import write_payload
from bench.report import LATEST, Report
from bench.rounds import Rounds
from bench.samples import Samples
from bench.scale import CODECS, FULL, QUICK, Scale
from bench.startup import SMALL, Startup
from bench.table_scan import measure_table_scan
from offsite.engine.spark_runner import SparkRunner


def main() -> None:
    options = _options()
    with tempfile.TemporaryDirectory(prefix="offsite-bench-", dir=options.dir) as folder:
        report = run_bench(_scale(options), Path(folder))
    print(f"\n{report.table()}")
    out = options.out or (None if options.quick else LATEST)
    if out:
        report.write(out)


def run_bench(scale: Scale, folder: Path) -> Report:
    """Everything, in a new broker below `folder`."""
    startup, costs = Samples(), Samples()
    measure_checksums(costs)
    measure_table_scan(costs, folder)
    payload = write_payload(folder / "payload")
    with running_cluster(folder / "kafka") as cluster:
        _fill(cluster, scale, payload)
        rounds = _rounds(cluster, scale, payload, folder)
        for number in range(scale.repeats):
            _say(f"start-up, repeat {number + 1} of {scale.repeats}")
            Startup(cluster=cluster, scale=scale, folder=folder / "repository").run(startup)
        _say("exports into Avro")
        measure_avro_export(costs, cluster, records=scale.records, folder=folder, repeats=scale.repeats)
    return Report(
        machine=describe_machine(),
        scale=scale,
        copies=rounds.samples,
        startup=startup,
        costs=costs,
        worker_peak_rss_bytes=rounds.copies.worker_peak_rss_bytes,
    )


def _rounds(cluster: Cluster, scale: Scale, payload: Path, folder: Path) -> Rounds:
    with closing(SparkRunner()) as runner:
        copies = Copies(cluster=cluster, runner=runner, folder=folder / "repository")
        rounds = Rounds(cluster=cluster, copies=copies, scale=scale, payload=payload, folder=folder)
        _say("warming up")
        rounds.warm_up()
        for number in range(scale.repeats):
            _say(f"copies, repeat {number + 1} of {scale.repeats}")
            rounds.run()
    return rounds


def _fill(cluster: Cluster, scale: Scale, payload: Path) -> None:
    for topic, codec, records in [*((c, c, scale.records) for c in CODECS), (SMALL, "none", scale.small_records)]:
        _say(f"filling topic {topic}")
        cluster.create(topic)
        kafka_tools.produce(cluster.bootstrap, topic, records=records, payload=payload, codec=codec)


def _say(text: str) -> None:
    print(text, flush=True)


def _scale(options: argparse.Namespace) -> Scale:
    scale = QUICK if options.quick else FULL
    return replace(scale, repeats=options.repeats or scale.repeats)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the load, once")
    parser.add_argument("--repeats", type=int, help="how often everything is measured [default: 3, quick: 1]")
    parser.add_argument("--out", type=Path, help="where to write the figures as JSON")
    parser.add_argument("--dir", type=Path, help="where to put the temporary folder (6 GB) [default: the system's]")
    return parser.parse_args()


if __name__ == "__main__":
    main()
