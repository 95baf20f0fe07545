"""What many small partitions cost: whole processes, for a first backup, one that finds nothing new, and a restore.

`python -m bench.wide [--topics N] [--partitions N] [--records N] [--repeats N] [--offsite COMMAND]`: by default 20
topics of 100 partitions with 5 records each, three times. Prints seconds, and medians. `--offsite` measures another
installation, such as that of an older commit.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer

from bench.cluster import Cluster, running_cluster
from offsite.kafka.protocol.metadata import NewTopic


@dataclass(frozen=True, slots=True, kw_only=True)
class Wide:
    """`command`: the offsite that is measured."""

    cluster: Cluster
    topics: Sequence[str]
    repository: Path
    command: str

    def run(self) -> Mapping[str, float]:
        """Seconds of each command. Raises `CalledProcessError` when one fails."""
        place = ["--repo", str(self.repository), "--bootstrap", self.cluster.bootstrap]
        copied = ["--backup", "wide", "--topics", "w-*"]
        self._offsite("init", str(self.repository))
        first_s = self._offsite("backup", "run", *place, *copied)
        again_s = self._offsite("backup", "run", *place, *copied)
        aside = ["--rename", "w-*=r-*", "--groups", "none"]
        restore_s = self._offsite("restore", "run", *place, "--backup", "wide", *aside, "--yes")
        self.cluster.delete([f"r-{name[2:]}" for name in self.topics])
        shutil.rmtree(self.repository)
        return {"first": first_s, "again": again_s, "restore": restore_s}

    def _offsite(self, *arguments: str) -> float:
        self.cluster.rest()
        os.sync()
        start_s = time.perf_counter()
        subprocess.run([self.command, *arguments], check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - start_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topics", type=int, default=20)
    parser.add_argument("--partitions", type=int, default=100)
    parser.add_argument("--records", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--offsite", default=str(Path(sys.executable).with_name("offsite")))
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory(prefix="offsite-bench-") as folder, running_cluster(Path(folder) / "k") as cluster:
        topics = [f"w-{number:03}" for number in range(options.topics)]
        fill_topics(cluster, topics, partitions=options.partitions, records=options.records)
        wide = Wide(cluster=cluster, topics=topics, repository=Path(folder) / "r", command=options.offsite)
        runs = [_told(wide.run()) for _ in range(options.repeats)]
    print("medians", {each: round(statistics.median(run[each] for run in runs), 2) for each in runs[0]})


def fill_topics(cluster: Cluster, names: Sequence[str], *, partitions: int, records: int) -> None:
    """Make the topics `names` of `partitions` each, with so many records in each partition."""
    cluster.admin.create_topics([NewTopic(name=name, partitions=partitions) for name in names])
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 100})
    for name in names:
        for number in range(partitions * records):
            producer.produce(name, b"value %d" % number, partition=number % partitions)
        producer.poll(0)
    if producer.flush(120):
        raise SystemExit("not everything was written")


def _told(run: Mapping[str, float]) -> Mapping[str, float]:
    print({name: round(seconds, 2) for name, seconds in run.items()}, flush=True)
    return run


if __name__ == "__main__":
    main()
