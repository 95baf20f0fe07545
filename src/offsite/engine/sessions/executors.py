"""The executors of a cluster: they arrive in sequence, and more may come later."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from offsite.engine.local import pyspark_internals
from offsite.engine.sessions.master import runs_in_one_jvm, slots
from offsite.model.time import parse_duration_s

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext

WAIT_MAX_S = 30.0
"""How long a run waits for the first executor before it plans without a count: pulling an image takes longer, and a
guess will do."""
SETTLED_AFTER_S = 1.0
"""After as long without a further executor, the present executors count as all."""
POLL_S = 0.1
_NO_LIMIT = 1 << 20
WAIT_SETTING = "spark.offsite.executors.wait"
WAIT_DEFAULT = "10m"


def wait_for_executors(context: SparkContext) -> None:
    """Return when as many executors are present as the settings ask for; without such a setting, when no more come; and
    after `WAIT_MAX_S` in any case."""
    if runs_in_one_jvm(str(context.master)):
        return
    requested = _asked_for(context.getConf())
    began_s = changed_s = time.monotonic()
    last_running = 0
    while (now_s := time.monotonic()) - began_s < WAIT_MAX_S:
        running = pyspark_internals.running_at_once(context)
        if running != last_running:
            last_running, changed_s = running, now_s
        if last_running >= requested or (last_running and now_s - changed_s >= SETTLED_AFTER_S):
            return
        time.sleep(POLL_S)


def patience_s(chosen: Mapping[str, str]) -> float:
    """Return how long a run waits for an executor while there is none, in seconds. Raises `BadOption`."""
    return parse_duration_s(chosen.get(WAIT_SETTING, WAIT_DEFAULT))


def has_executors(context: SparkContext) -> bool:
    """Whether tasks of `context` can run just now; True where unknown."""
    return runs_in_one_jvm(str(context.master)) or pyspark_internals.executors_now(context) != 0


def cluster_slots(context: SparkContext) -> int:
    """Return the number of tasks that the executors of `context` run at once, or may come to run on a growing cluster;
    a guess without executors."""
    if runs_in_one_jvm(str(context.master)):
        return slots(str(context.master))
    return max(pyspark_internals.running_at_once(context), _grows_to(context.getConf())) or slots(str(context.master))


def _asked_for(conf: SparkConf) -> int:
    """Return the number by the settings, or more than any cluster has."""
    if cores := _number(conf, "spark.cores.max"):
        return cores // _task_cpus(conf)
    return _number(conf, "spark.executor.instances") * _tasks_of_one(conf) or _NO_LIMIT


def _grows_to(conf: SparkConf) -> int:
    """Return the limit of dynamic allocation, where set; else 0."""
    if (conf.get("spark.dynamicAllocation.enabled") or "").strip().lower() != "true":
        return 0
    return _number(conf, "spark.dynamicAllocation.maxExecutors") * _tasks_of_one(conf)


def _tasks_of_one(conf: SparkConf) -> int:
    return max(1, (_number(conf, "spark.executor.cores") or 1) // _task_cpus(conf))


def _task_cpus(conf: SparkConf) -> int:
    return _number(conf, "spark.task.cpus") or 1


def _number(conf: SparkConf, name: str) -> int:
    text = conf.get(name) or ""
    return int(text) if text.isdecimal() else 0
