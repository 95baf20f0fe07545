"""What Spark, PEX and shells really said, as it was seen on a cluster."""

from __future__ import annotations

import sys

import pytest

from offsite.engine.unfit_executor import unfit_executor
from offsite.model.errors import ExecutorDiffers, OffsiteError, SparkFailed

OWN = f"{sys.version_info.major}.{sys.version_info.minor}"
HEAD = "Lost task 0.3 in stage 0.0: org.apache.spark.SparkException: \nError from python worker:\n"
EXAMINED = (
    "\n  Examined the following interpreters:\n  1.) /opt/bin/python3 CPython=={}.1\n  \n  No interpreter compatible"
)
OTHER_ON_PATH = f"{HEAD}  Failed to find compatible interpreter on path /usr/bin:/bin.\n  {EXAMINED}"
OTHER_NAMED = f"{HEAD}  Failed to find a compatible PEX_PYTHON=/opt/bin/python3.\n  {EXAMINED}"


@pytest.mark.parametrize(
    ("said", "kind", "told"),
    [
        (OTHER_ON_PATH.format("3.99"), ExecutorDiffers, "an executor has Python 3.99 (/opt/bin/python3)"),
        (OTHER_NAMED.format("3.99"), ExecutorDiffers, "an executor has Python 3.99 (/opt/bin/python3)"),
        (OTHER_ON_PATH.format(OWN), ExecutorDiffers, "no libraries for the Python"),
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.99 than that in driver: 3.11, PySpark",
            ExecutorDiffers,
            "an executor has Python 3.99",
        ),
        (
            f"{HEAD}  Failed to find any of these python binaries on the PATH:\n  python3.11",
            SparkFailed,
            "has no Python",
        ),
        (
            'java.io.IOException: Cannot run program "./offsite.pex": error=13, Permission denied\n\tat java',
            SparkFailed,
            "an executor cannot run ./offsite.pex as its Python: Permission denied",
        ),
        (
            'java.io.IOException: Cannot run program "python3": error=2, No such file or directory\n\tat java',
            SparkFailed,
            "an executor cannot run python3 as its Python: No such file or directory",
        ),
        (
            "ExecutorDiffers: the executor on w7 has offsite 0.2, and this one is 0.1.0\n\n\tat org",
            ExecutorDiffers,
            "the executor on w7 has offsite 0.2, and this one is 0.1.0",
        ),
        ("/usr/bin/python3: No module named offsite.engine", SparkFailed, "cannot import offsite"),
    ],
)
def test_what_is_wrong_with_an_executor_is_named(said: str, kind: type[OffsiteError], told: str) -> None:
    found = unfit_executor(said)
    assert type(found) is kind
    assert told in found.message
    assert found.hint


def test_what_is_not_about_an_executors_python_is_left_to_others() -> None:
    assert unfit_executor("Task 0 in stage 1.0 failed 4 times, most recent failure: ExecutorLostFailure") is None
