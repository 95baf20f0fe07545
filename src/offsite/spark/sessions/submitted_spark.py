"""A JVM started by `spark-submit`, as pyspark does it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offsite.spark.local import pyspark_internals

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext

_SECRET = re.compile("secret|password|token|access[.]?key", re.IGNORECASE)
"""Settings that Spark itself shows to nobody (`spark.redaction.regex`): they must not be on the JVM's command line."""


class SubmittedSpark:
    """Spark started by `spark-submit`, which writes into `log`, and ended in an orderly way."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self._gateway: Any = None

    def start(self, settings: Mapping[str, str], *, python: str) -> SparkContext:
        """`python` runs the workers."""
        from pyspark import SparkConf, SparkContext

        shown, conf = SparkConf(), SparkConf()
        shown.setAll([(name, value) for name, value in settings.items() if not _SECRET.search(name)])
        conf.setAll(list(settings.items()))
        self._gateway = self._launched(shown)
        context = SparkContext(conf=conf, gateway=self._gateway)
        self._gateway = self._gateway or getattr(context, "_gateway", None)
        context.pythonExec = python
        return context

    def stop(self, context: SparkContext | None) -> None:
        if context is not None:
            context.stop()
        if self._gateway is not None:
            self._gateway.shutdown()
            self._gateway.proc.stdin.close()
            self._gateway.proc.wait()
            if context is not None:
                pyspark_internals.forget(context)

    def _launched(self, conf: SparkConf) -> Any:  # noqa: ANN401  # Py4J has no types
        """A JVM with its log in our file; None where pyspark has no such way: it launches one itself then, whose log
        goes to stderr."""
        try:
            from pyspark.java_gateway import launch_gateway
        except ImportError:
            return None
        with self.log.open("wb") as log:
            return launch_gateway(conf, {"stdout": log, "stderr": log})  # type: ignore[no-untyped-call]
