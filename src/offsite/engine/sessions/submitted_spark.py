"""Spark through `spark-submit`: a JVM that pyspark starts by it, on this machine or for a cluster, where the master
places the executors; and the Spark with which it has started this program (on YARN and Kubernetes the driver may be on
the cluster too).
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offsite.engine.executor_archive import ArchiveSettings, executor_environment, with_archive
from offsite.engine.local import pyspark_internals
from offsite.engine.local.daemon import PRELOAD_VARIABLE
from offsite.engine.local.jvm import java_binary, spark_home
from offsite.engine.scratch import Scratch
from offsite.engine.sessions.master import SUBMITTED, check_reachable
from offsite.engine.sessions.session import ContextSession
from offsite.engine.settings import (
    CLOSED_PAGES,
    SparkChoice,
    common_settings,
    encryption_settings,
    executor_variables,
    light_jvm_settings,
    merge_settings,
    split_secrets,
)
from offsite.model.errors import BadOption, SparkFailed
from offsite.model.journal import safe_line, warned
from offsite.model.untrusted.java_failure import find_cause
from offsite.model.untrusted.text import NotUtf8, decode_text, parse_properties

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


class ClusterSession(ContextSession):
    """Spark started in Spark's own way, with the user's defaults and environment. Workers run the Python of the
    archive; without an archive Spark's choice, or else a Python at the same path as the driver's."""

    def __init__(
        self, master: str, chosen: Mapping[str, str], archive: ArchiveSettings, *, preload: Sequence[str]
    ) -> None:
        self._master, self._chosen, self._preload = master, with_archive(chosen, archive), preload
        self._python = archive.python or chosen.get("spark.pyspark.python") or _python_of_environment()
        self._scratch = Scratch()
        self._spark: SubmittedSpark | None = None
        super().__init__()

    def _build(self) -> SparkContext:
        java_binary()
        check_reachable(self._master)
        self._spark = SubmittedSpark(self._scratch.create() / "spark.log")
        return self._spark.start(merge_settings(self._own_settings(), self._chosen), python=self._python)

    def _own_settings(self) -> dict[str, str]:
        defaults = cluster_defaults()
        return {
            "spark.master": self._master,
            **{name: value for name, value in common_settings().items() if not _is_asked_for(name, defaults)},
            **light_jvm_settings(self._chosen, defaults),
            **encryption_settings(self._chosen),
            **executor_variables({PRELOAD_VARIABLE: " ".join(self._preload)}),
        }

    def _give_up_start(self) -> None:
        if self._context is None and self._spark is not None:
            self._spark.abandon()

    def _stop(self, *, surely: bool) -> None:  # noqa: ARG002  # Spark ends its executors itself
        if self._spark is not None:
            self._spark.stop(self._context)
        self._scratch.remove()

    def _explain(self, error: Exception) -> str:
        return (_why(self._spark.log) if self._spark else "") or super()._explain(error)


def _is_asked_for(name: str, defaults: Mapping[str, str]) -> bool:
    """Whether the cluster's own defaults ask for Spark's pages."""
    return name in CLOSED_PAGES and name in defaults


def _why(log: Path) -> str:
    """Return why the context did not come up. The log's last line often concerns the following shutdown, or a stack."""
    text = log.read_text(errors="replace") if log.exists() else ""
    if match := re.search(r"Error initializing SparkContext\.?\s*\n(.+)", text):
        return match[1].strip()
    errors = re.findall(r"^(?:Exception in thread.*|Error: .*|\S*(?:Exception|Error): .*)$", text, re.MULTILINE)
    return errors[-1].strip() if errors else find_cause(text) if text else ""


def cluster_defaults() -> Mapping[str, str]:
    """Return the settings in the `spark-defaults.conf` that Spark will read, as far as readable here."""
    home = Path(os.environ.get("SPARK_HOME") or spark_home())
    file = Path(os.environ.get("SPARK_CONF_DIR") or home / "conf") / "spark-defaults.conf"
    try:
        text = decode_text(file.read_bytes())
    except (OSError, NotUtf8):
        return {}
    return {setting.name: setting.value.strip() for setting in parse_properties(text)}


def _python_of_environment() -> str:
    return os.environ.get("PYSPARK_PYTHON", sys.executable)
