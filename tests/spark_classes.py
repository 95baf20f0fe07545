"""A class data archive for the JVMs of Spark's own scripts: drivers, masters, workers and executors of the tests.

Of what such a JVM does before its first task the most is finding, parsing and verifying some ten thousand classes in
300 jars, and a run starts half a hundred of them. Java's AppCDS (JEP 350) does that once for an environment: `make`
lets this file record it. A JVM whose class path is another one, or that finds no archive, starts as it always did.

offsite keeps such an archive of its own JVMs, which the first of them records until it ends. In a run of the tests that
is a Spark that lives for minutes, while all others start without: so they get theirs here as well.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from offsite.engine.local.jvm import spark_home
from offsite.engine.spark_runner import SparkRunner

ARCHIVE = Path(sys.prefix) / "spark-classes.jsa"
USED = f"-XX:SharedArchiveFile={ARCHIVE}" if ARCHIVE.exists() else ""
"""Flags for java. (With the name of a file that is not there it would do without its own archive as well.)"""

_MASTERS = ("local-cluster[1,1,512]", "local[1]")
"""The first has a master and a worker in the driver's JVM, the second an executor: between them all that there are."""

_OF_PROCESSES = (
    "deploy.master.ui.MasterWebUI",
    "deploy.worker.CommandUtils",
    "deploy.worker.ui.WorkerWebUI",
    "executor.CoarseGrainedExecutorBackend",
)
"""Classes that only processes of their own load."""


def record() -> None:
    """Write the archive, whole or not at all, as the JVM ends that has done a bit of everything."""
    _begin_to_record_offsites_own()
    os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    recording = ARCHIVE.with_suffix(".recording")
    recording.unlink(missing_ok=True)
    _work(f"-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ArchiveClassesAtExit={recording} -Xlog:disable")
    shutil.rmtree(spark_home() / "work")  # of the worker: there is no setting for its folder
    recording.rename(ARCHIVE)


def _begin_to_record_offsites_own() -> None:
    """Its JVM writes the archive in the background, after its end."""
    runner = SparkRunner()
    runner.run([1, 2], abs)
    runner.close()


def _work(java_options: str) -> None:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    settings = {
        "spark.driver.extraJavaOptions": java_options,
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.log.level": "OFF",
        "spark.ui.port": "0",
        "spark.ui.showConsoleProgress": "false",
    }
    for master in _MASTERS:
        context = SparkContext(conf=SparkConf().setMaster(master).setAll(list(settings.items())))
        for name in _OF_PROCESSES:
            context._jvm.java.lang.Class.forName(f"org.apache.spark.{name}")  # type: ignore[union-attr]
        context.parallelize(range(2), 2).map(lambda number: (number, number)).groupByKey().count()
        if master == _MASTERS[-1]:
            SparkSession(context).range(2).collect()
        context.stop()
    gateway = SparkContext._gateway
    gateway.shutdown()  # type: ignore[union-attr]
    gateway.proc.stdin.close()  # type: ignore[union-attr]
    assert gateway.proc.wait() == 0, "it may not have written all"  # type: ignore[union-attr]


if __name__ == "__main__":
    record()
