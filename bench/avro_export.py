"""A cluster's records into Avro files: `offsite export --from kafka`, and Spark's Kafka source into its Avro writer.

Both in one Spark session on two cores, in turns, with snappy. Spark's connectors are jars that offsite does not use:
Spark fetches them when this is measured, and without them only offsite is measured. `python -m bench.avro_export`
does this alone.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench import kafka_tools
from bench.cluster import Cluster, running_cluster
from bench.memory import settle
from bench.payload import write_payload
from bench.processes import own_cpu_s
from bench.samples import Samples
from bench.scale import RECORD_BYTES
from offsite.archives.export.plan import ExportRequest
from offsite.archives.export.run import export_of_cluster, open_target
from offsite.archives.formats import WriteOptions
from offsite.engine.runner import Runner
from offsite.engine.spark_runner import SparkRunner
from offsite.kafka.cluster import Cluster as ConnectedCluster
from offsite.model.selection import parse_selection
from offsite.restore.request import RestoreRequest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPIC = "none"
RECORDS = 1_000_000
REPEATS = 3
_CORES = 2
_CONNECTORS = (
    "org.apache.spark:spark-avro_2.13:4.1.1",
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0",
)
"""The newest of Spark 4 that are published with all they need; a newer Spark takes them as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroExport:
    """Both ways, from a topic that holds `records`, into folders that are emptied before."""

    cluster: Cluster
    records: int
    folder: Path

    def offsite(self, runner: Runner) -> None:
        place = self._emptied("offsite")
        request = ExportRequest(point=RestoreRequest(selection=parse_selection([TOPIC])))
        connected = ConnectedCluster(config=self.cluster.kafka, admin=self.cluster.admin)
        job = export_of_cluster(connected, open_target("avro", str(place), WriteOptions()), request, slots=_CORES)
        if (found := job.run(job.plan(), runner).records) != self.records:
            raise SystemExit(f"exported {found} of {self.records} records")

    def spark(self, session: SparkSession) -> None:
        options = {
            "kafka.bootstrap.servers": self.cluster.bootstrap,
            "subscribe": TOPIC,
            "startingOffsets": "earliest",
            "includeHeaders": "true",
        }
        rows = session.read.format("kafka").options(**options).load()
        rows.write.format("avro").option("compression", "snappy").save(str(self._emptied("spark")))

    def measure(self, samples: Samples, name: str, way: Callable[[], None]) -> None:
        """Adds records per second of the clock for each core, and per CPU second of all but the broker."""
        self.cluster.rest()
        settle(self.records * RECORD_BYTES)
        cpu_s, start_s = self._cpu_s(), time.perf_counter()
        way()
        elapsed_s, cpu_s = time.perf_counter() - start_s, self._cpu_s() - cpu_s
        samples.add(
            **{
                f"avro_export_{name}_records_s_per_core": self.records / elapsed_s / _CORES,
                f"avro_export_{name}_records_per_cpu_s": self.records / cpu_s,
            }
        )

    def _emptied(self, name: str) -> Path:
        shutil.rmtree(self.folder / name, ignore_errors=True)
        return self.folder / name

    def _cpu_s(self) -> float:
        return own_cpu_s(without={self.cluster.broker_pid})


def measure_avro_export(samples: Samples, cluster: Cluster, *, records: int, folder: Path, repeats: int) -> None:
    """The topic `none` of `cluster` holds `records`. No other Spark may run in this process."""
    export = AvroExport(cluster=cluster, records=records, folder=folder)
    session, has_connectors = _session()
    runner = SparkRunner(context=session.sparkContext)
    ways: dict[str, Callable[[], None]] = {"offsite": lambda: export.offsite(runner)}
    if has_connectors:
        ways["spark"] = lambda: export.spark(session)
    try:
        for way in ways.values():  # warm, and nothing is measured
            way()
        for _ in range(repeats):
            for name, way in ways.items():
                export.measure(samples, name, way)
    finally:
        runner.close()
        session.stop()


def _session() -> tuple[SparkSession, bool]:
    """Whether it has Spark's connectors as well."""
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    plain = SparkSession.builder.master(f"local[{_CORES}]").config(
        map={"spark.ui.enabled": "false", "spark.driver.memory": "2g", "spark.log.level": "ERROR"}
    )
    try:
        return plain.config("spark.jars.packages", ",".join(_CONNECTORS)).getOrCreate(), True
    except (PySparkException, RuntimeError) as error:
        print(f"Spark's connectors were not fetched, so that its own way is not measured: {error}", flush=True)
        return plain.config("spark.jars.packages", "").getOrCreate(), False


def main() -> None:
    samples = Samples()
    with tempfile.TemporaryDirectory(prefix="offsite-bench-") as name:
        folder = Path(name)
        payload = write_payload(folder / "payload")
        with running_cluster(folder / "kafka") as cluster:
            cluster.create(TOPIC)
            kafka_tools.produce(cluster.bootstrap, TOPIC, records=RECORDS, payload=payload, codec="none")
            measure_avro_export(samples, cluster, records=RECORDS, folder=folder, repeats=REPEATS)
    for figure, values in samples.all().items():
        print(f"{figure}: {max(values):,.0f} at best, {samples.medians()[figure]:,.0f} median")


if __name__ == "__main__":
    main()
