"""A JVM started by `spark-submit`, as pyspark does it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offsite.engine.local import pyspark_internals
from offsite.engine.settings import split_secrets
from offsite.model.errors import SparkFailed
from offsite.model.journal import safe_line, warned

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext


@contextmanager
def log_failure(event: str) -> Iterator[None]:
    """A block that may fail, because the peer may be gone: a failure goes into the log."""
    try:
        yield
    except Exception as error:  # noqa: BLE001  # Py4J's and the system's, of many kinds
        warned(event, why=safe_line(error))


class SubmittedSpark:
    """Spark started by `spark-submit`, with output in `log`, and ended in an orderly way."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self._gateway: Any = None
        self._is_abandoned = False

    def start(self, settings: Mapping[str, str], *, python: str) -> SparkContext:
        """`python` runs the workers."""
        from pyspark import SparkConf, SparkContext

        shown, conf = SparkConf(), SparkConf()
        shown.setAll(list(split_secrets(settings)[0].items()))
        conf.setAll(list(settings.items()))
        self._gateway = self._launched(shown)
        if self._is_abandoned:
            raise SparkFailed("the start of Spark was aborted", hint="run again")
        context = SparkContext(conf=conf, gateway=self._gateway)
        self._gateway = self._gateway or getattr(context, "_gateway", None)
        context.pythonExec = python
        return context

    def abandon(self) -> None:
        """Give up a start in progress: the start ends with an error."""
        self._is_abandoned = True
        if self._gateway is not None:
            self._gateway.proc.kill()

    def stop(self, context: SparkContext | None) -> None:
        """Also of a JVM that has died."""
        if context is not None:
            with log_failure("spark_stop_failed"):
                context.stop()
        if self._gateway is not None:
            with log_failure("spark_stop_failed"):
                self._gateway.shutdown()
            self._gateway.proc.stdin.close()
            self._gateway.proc.wait()
            pyspark_internals.forget_jvm_of(context)

    def _launched(self, conf: SparkConf) -> Any:  # noqa: ANN401  # Py4J has no types
        """Launch a JVM with its log in `log`. None where pyspark lacks the function: pyspark then launches a JVM
        itself, with the log on stderr."""
        try:
            from pyspark.java_gateway import launch_gateway
        except ImportError:
            return None
        with self.log.open("wb") as log:
            return launch_gateway(conf, {"stdout": log, "stderr": log})  # type: ignore[no-untyped-call]
