"""Spark through `spark-submit`: a JVM that pyspark starts by it, and the Spark with which it has started this program
(on YARN and Kubernetes the driver may be on the cluster too).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offsite.engine.executor_archive import executor_environment
from offsite.engine.local import pyspark_internals
from offsite.engine.sessions.master import SUBMITTED
from offsite.engine.settings import SparkChoice, common_settings, encryption_settings, merge_settings, split_secrets
from offsite.model.errors import BadOption, SparkFailed
from offsite.model.journal import safe_line, warned

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext

_GATEWAY = "PYSPARK_GATEWAY_PORT"


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


def submitted_context() -> SparkContext:
    """Return the context of this program, made with the settings of `spark-submit` if missing. The context lives until
    the program ends. Executors unpack an archive into their own folder by default. Raises `BadOption` for a program not
    started by `spark-submit`."""
    if _GATEWAY not in os.environ:
        raise BadOption(
            f"--spark-master {SUBMITTED} is for a program started by spark-submit, but spark-submit did not start "
            "this program",
            hint="write its script with: offsite spark job; then: spark-submit offsite-job.py backup run",
        )
    from pyspark import SparkConf, SparkContext

    submitted = dict(pyspark_internals.submitted_conf().getAll())
    defaults = {**common_settings(), **executor_environment(), **encryption_settings(submitted)}
    settings = merge_settings(defaults, submitted)
    conf = SparkConf().setAll(list(settings.items()))
    return SparkContext.getOrCreate(conf)


def check_submitted(choice: SparkChoice) -> None:
    """Raise `BadOption` for settings too late for a running Spark."""
    if choice.conf or choice.archive:
        raise BadOption(
            "spark-submit already started this Spark: its settings come from spark-submit",
            hint="set them with the options of spark-submit, where this Spark was started",
        )
