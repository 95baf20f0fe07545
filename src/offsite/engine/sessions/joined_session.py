"""The Spark with which `spark-submit` has started this program: on YARN and Kubernetes the driver may be on the cluster
too."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from offsite.engine.archive import executor_environment
from offsite.engine.choice import SparkChoice
from offsite.engine.local import pyspark_internals
from offsite.engine.sessions.master import SUBMITTED
from offsite.engine.settings import common_settings, encryption_settings, merge_settings
from offsite.model.errors import BadOption

if TYPE_CHECKING:
    from pyspark import SparkContext

_GATEWAY = "PYSPARK_GATEWAY_PORT"


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
