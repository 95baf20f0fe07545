"""Spark master URLs: local JVM or cluster, and a check whether a standalone master answers."""

from __future__ import annotations

import os
import re
import socket

from offsite.model.bounds import whole_number
from offsite.model.errors import BadOption, SparkFailed

_MAX_PORT = 65_535

CONNECT_LIMIT_S = 5.0
"""Spark itself would try for a minute, silently, before an error."""

SPARK_ATTEMPTS = 4
"""Spark's default for `spark.task.maxFailures`."""

SUBMITTED = "submitted"
"""In place of a master URL: the Spark with which `spark-submit` has started this program."""

CLUSTER_SLOTS = 16
"""Tasks of a small backup for a cluster, whose size is unknown before Spark has started."""


def slots(master: str | None) -> int:
    """Return the number of tasks to expect at once, at least 1: the cores of a local master (None: all cores), a guess
    for clusters. Spark decides whether a master without cores, such as `local[0]`, is possible."""
    if master is not None and not runs_in_one_jvm(master):
        return CLUSTER_SLOTS
    if master == "local":
        return 1
    match = re.match(r"local\[(\d+)", master or "")
    return max(1, int(match[1])) if match else os.cpu_count() or 1


def runs_in_one_jvm(master: str) -> bool:
    """True for `local`, `local[4]`, `local[*,4]`; false for `local-cluster[…]` and every cluster."""
    return master == "local" or master.startswith("local[")


def task_attempts(master: str, max_failures: str | None) -> int:
    """Return the number of attempts that `master` gives a task; `max_failures` is `spark.task.maxFailures`, ignored by
    local masters."""
    if not runs_in_one_jvm(master):
        return int(max_failures or SPARK_ATTEMPTS)
    match = re.fullmatch(r"local\[[^,]+,\s*(\d+)\s*\]", master)
    return int(match[1]) if match else 1


def check_reachable(master: str) -> None:
    """Raise `SparkFailed` unless a host of a `spark://host:port,host:port` URL answers. Only Spark knows how to reach
    further masters (YARN, Kubernetes)."""
    if not master.startswith("spark://"):
        return
    addresses = [_address(part, master) for part in master.removeprefix("spark://").split(",")]
    if not any(_answers(address) for address in addresses):
        raise SparkFailed(
            f"no Spark master answers at {master}", hint="check --spark-master, or omit it to run Spark here"
        )


def _address(part: str, master: str) -> tuple[str, int]:
    host, _, port = part.rpartition(":")
    if not host or (number := whole_number(port, most=_MAX_PORT)) is None:
        raise BadOption(f"{master[:300]!r} is not a Spark master URL", hint="write it as spark://host:7077")
    return host.strip("[]"), number


def _answers(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, timeout=CONNECT_LIMIT_S).close()
    except OSError:
        return False
    return True
