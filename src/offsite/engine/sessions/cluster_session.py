"""Spark on a cluster: the driver is this process, and the master places the executors."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from offsite.engine.executor_archive import ArchiveSettings, with_archive
from offsite.engine.local.daemon import PRELOAD_VARIABLE
from offsite.engine.local.jvm import java_binary, spark_home
from offsite.engine.scratch import Scratch
from offsite.engine.sessions.master import check_reachable
from offsite.engine.sessions.session import ContextSession
from offsite.engine.sessions.submitted_spark import SubmittedSpark
from offsite.engine.settings import (
    CLOSED_PAGES,
    common_settings,
    encryption_settings,
    executor_variables,
    light_jvm_settings,
    merge_settings,
)
from offsite.model.untrusted.java_failure import find_cause
from offsite.model.untrusted.text import NotUtf8, decode_text, parse_properties

if TYPE_CHECKING:
    from pyspark import SparkContext


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
