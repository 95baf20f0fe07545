"""Three workers of one core each against `local[3]`: the same backup in two warm Spark sessions, in turns.

`python -m bench.cluster_workers [--records N] [--repeats N]`: a topic of 200-byte records in 12 partitions, lz4. Prints
seconds of each round, and the ratio of the medians: above 1 where the cluster is the faster one. The smaller the topic,
the more the cluster's fixed costs weigh: 20 ms of CPU for a task, in JVMs that run a third of the tasks each.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from contextlib import closing
from pathlib import Path

from bench import kafka_tools
from bench.cluster import Cluster, running_cluster
from bench.payload import write_payload
from offsite.backup.options import BackupRequest
from offsite.backup.plan import plan_backup
from offsite.backup.run import run_backup
from offsite.engine.settings import SparkChoice
from offsite.engine.spark_runner import SparkRunner
from offsite.kafka.protocol.metadata import NewTopic
from offsite.model.selection import parse_selection
from offsite.repository.repository import Repository
from offsite.stores.open_store import open_store
from tests.spark_cluster import spark_cluster

TOPIC = "workers"
PARTITIONS = 12


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=64_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="offsite-bench-") as made:
        folder = Path(made)
        with running_cluster(folder / "k") as cluster:
            cluster.admin.create_topics([NewTopic(name=TOPIC, partitions=PARTITIONS)])
            payload = write_payload(folder / "payload")
            kafka_tools.produce(cluster.bootstrap, TOPIC, records=options.records, payload=payload, codec="lz4")
            _compare(cluster, folder, options.repeats)


def _compare(cluster: Cluster, folder: Path, repeats: int) -> None:
    """Pyspark has one session in a process at a time: each turn starts its own, and its first backup warms it up."""
    (folder / "spark").mkdir()
    taken: dict[str, list[float]] = {"local[3]": [], "cluster": []}
    with spark_cluster(folder / "spark", environments=[os.environ] * 3) as workers:
        settings = {"spark.driver.host": "127.0.0.1", "spark.executor.memory": "512m"}
        choices = {
            "local[3]": SparkChoice(master="local[3,4]"),
            "cluster": SparkChoice(master=workers.url, conf=settings),
        }
        for number in range(repeats):
            for name, choice in choices.items():
                with closing(SparkRunner(choice, preload=["offsite.backup.copy"])) as runner:
                    _back_up(cluster, folder, runner)
                    taken[name] += [_back_up(cluster, folder, runner) for _ in range(2)]
            print(
                f"round {number + 1}",
                {name: [round(s, 2) for s in some[-2:]] for name, some in taken.items()},
                flush=True,
            )
    medians = {name: statistics.median(some) for name, some in taken.items()}
    print("medians", {name: round(seconds, 2) for name, seconds in medians.items()})
    print(f"cluster / local[3]: {medians['local[3]'] / medians['cluster']:.2f}")


def _back_up(cluster: Cluster, folder: Path, runner: SparkRunner) -> float:
    repository = Repository.init(open_store(str(folder / "r")))
    runner.begin()
    slots = runner.slots
    cluster.rest()
    began_s = time.perf_counter()
    request = BackupRequest(backup=TOPIC, selection=parse_selection([TOPIC]))
    plan = plan_backup(repository, cluster.admin, request, slots=slots)
    run_backup(plan, repository=repository, kafka=cluster.kafka, runner=runner)
    took_s = time.perf_counter() - began_s
    shutil.rmtree(folder / "r")
    return took_s


if __name__ == "__main__":
    main()
