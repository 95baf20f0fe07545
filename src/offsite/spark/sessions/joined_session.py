"""The Spark that `spark-submit` has started this program with: on YARN and Kubernetes the driver may be on the cluster,
too."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from offsite.model.errors import BadOption
from offsite.spark.archive import ArchiveSettings, with_archive
from offsite.spark.local import pyspark_internals
from offsite.spark.sessions.master import SUBMITTED
from offsite.spark.sessions.session import Session
from offsite.spark.settings import common_settings, laid_over

if TYPE_CHECKING:
    from pyspark import SparkContext

_GATEWAY = "PYSPARK_GATEWAY_PORT"


class JoinedSession(Session):
    """Settings are those of `spark-submit`, with what a person has `chosen` for offsite laid over them. The JVM is left
    running: it ends with the program."""

    def __init__(self, chosen: Mapping[str, str], archive: ArchiveSettings) -> None:
        self._chosen, self._archive = chosen, archive
        super().__init__()

    def _build(self) -> SparkContext:
        if _GATEWAY not in os.environ:
            raise BadOption(
                f"--spark-master {SUBMITTED} is for a program that spark-submit has started, and this one it has not",
                hint="spark-submit ... offsite-job.py backup run ...",
            )
        from pyspark import SparkConf, SparkContext

        given = dict(pyspark_internals.submitted_conf().getAll())
        chosen = with_archive({**given, **self._chosen}, self._archive)
        conf = SparkConf().setAll(list(laid_over(common_settings(), chosen).items()))
        context = SparkContext(conf=conf)
        context.pythonExec = self._archive.python or os.environ.get("PYSPARK_PYTHON", sys.executable)
        return context

    def _stop(self, *, surely: bool) -> None:  # noqa: ARG002  # Spark ends its executors itself
        if self._context is not None:
            self._context.stop()
