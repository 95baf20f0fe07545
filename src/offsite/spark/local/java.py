"""Which Java runs Spark in local mode, and with which jars."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

from offsite.model.errors import JavaMissing, SparkFailed

LOADED_FIRST = ("spark-core_", "scala-library-", "spark-", "jackson-", "hadoop-client-", "netty-", "py4j-")
"""Jars that hold most of the classes a job loads: a class is looked for in one jar after the other."""

NEVER_LOADED = (
    "HikariCP", "arpack", "arrow-", "breeze", "connect-repl", "curator-", "datanucleus", "datasketches",
    "derby", "hive-", "icu4j", "jersey-", "jline", "kubernetes-", "orc-", "parquet-", "rocksdbjni",
    "scala-compiler", "scala-reflect", "spark-catalyst", "spark-connect", "spark-graphx", "spark-hive",
    "spark-kubernetes", "spark-mllib", "spark-pipelines", "spark-repl", "spark-sql", "spark-streaming",
    "spark-yarn", "spire", "tink", "vertx-", "volcano-", "zookeeper", "log4j-slf4j2-impl",
)  # fmt: skip
"""Jars that a scheduler of Python tasks never opens; each one on the class path costs time at every start. Without the
last one slf4j finds no logger: log4j alone takes 0.2 s to start, and what goes wrong arrives as an exception anyway."""

INSTALL_HINT = "install a Java 17+ runtime (Debian: openjdk-17-jre-headless) and put it on PATH or set JAVA_HOME"


def java_binary() -> Path:
    """`$JAVA_HOME/bin/java`, else `java` on PATH. Raises `JavaMissing`."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin") if home else None)
    if found is None:
        raise JavaMissing(
            "Spark needs Java, and there is none" + (f" in JAVA_HOME={home}" if home else ""), hint=INSTALL_HINT
        )
    return Path(found).resolve()


def spark_home() -> Path:
    """The folder of the installed pyspark, found without importing it: that alone would take half a second."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise SparkFailed("pyspark is not installed", hint="pip install --force-reinstall offsite")
    return Path(spec.origin).parent


def scheduler_jars(home: Path) -> list[Path]:
    """The jars that Spark needs to schedule Python tasks in one JVM, the busiest first. Raises `SparkFailed`."""
    jars = [jar for jar in (home / "jars").glob("*.jar") if not jar.name.startswith(NEVER_LOADED)]
    if not jars:
        raise SparkFailed(f"no Spark jars in {home}/jars", hint="pip install --force-reinstall pyspark")
    return sorted(jars, key=lambda jar: (_rank(jar.name), jar.name))


def _rank(name: str) -> int:
    return next((rank for rank, prefix in enumerate(LOADED_FIRST) if name.startswith(prefix)), len(LOADED_FIRST))
