"""A SparkSession that offsite did not start: the program's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from pyspark import SparkContext
from pyspark.sql import SparkSession

from tests.shared_spark import end_shared_spark
from tests.spark_cluster import QUICK

_LIGHT = {
    "spark.driver.extraJavaOptions": f"{QUICK} -XX:-UsePerfData",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
SMALL_TABLES = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
}
"""A table of a few rows is soon read; what takes time is compiling for it."""


@contextmanager
def own_session(master: str = "local[2]", settings: Mapping[str, str] = MappingProxyType({})) -> Iterator[SparkSession]:
    """Ended with its JVM, which pyspark would keep for the rest of the process."""
    end_shared_spark()
    session = SparkSession.builder.master(master).config(map={**_LIGHT, **settings}).getOrCreate()
    gateway = SparkContext._gateway
    try:
        yield session
    finally:
        session.stop()
        gateway.shutdown()  # type: ignore[union-attr]
        gateway.proc.stdin.close()  # type: ignore[union-attr]
        gateway.proc.wait()  # type: ignore[union-attr]
        SparkContext._gateway = SparkContext._jvm = None
