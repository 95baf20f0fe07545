"""One warm Spark for the tests of a process: starting it takes longer than most of them, and a process holds only one.

Who needs a Spark of another kind ends this one first; the next test that asks gets a new one.
"""

from __future__ import annotations

from offsite.engine.runner import Runner
from offsite.engine.spark_runner import SparkRunner

_running: list[SparkRunner] = []


def shared_spark() -> Runner:
    if not _running:
        runner = SparkRunner()
        runner.begin()
        _running.append(runner)
    return _running[0]


def end_shared_spark() -> None:
    while _running:
        _running.pop().close()
