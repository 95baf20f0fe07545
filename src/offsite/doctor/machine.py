"""This machine: versions, Java, limits of the operating system, free space, and its clock, compared with the store's
and the cluster's, only by fresh writes.
"""

from __future__ import annotations

import platform
import shutil
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from offsite.doctor.check import CheckResult, NotMeasurable, failed, ok, warning
from offsite.doctor.parts import Parts
from offsite.kafka.protocol.logs import list_offsets_request
from offsite.log.range import TopicPartition
from offsite.model.clock import MOST_APART_MS
from offsite.model.units import GIB, MIB, format_duration, format_size
from offsite.model.version import __version__
from offsite.repository.heads import memory_root
from offsite.sandbox import find_java

OLDEST_PYTHON = (3, 11)
SPARK_MAJOR = "4"
OPEN_FILES_MIN = 1024
"""The usual limit; a worker has a connection to each broker, and some files."""
PROCESSES_MIN = 1024
"""Each thread counts, and Spark's JVM has hundreds."""
LITTLE_BYTES = GIB
"""Enough for a shuffle, a sandbox, or a segment per worker."""
NOTHING_BYTES = 64 * MIB
_UNLIMITED = -1

GROUPS_TOPIC = "__consumer_offsets"
ROUNDED_MS = 1_000
"""Object stores report whole seconds."""
NOTICED_MS = 30_000
CURE = "let NTP set the clocks of all machines"


def versions(_: Parts) -> CheckResult:
    """Whether offsite supports the installed versions."""
    try:
        spark = version("pyspark")
    except PackageNotFoundError:
        return failed("pyspark is not installed", cure="pip install --force-reinstall offsite")
    said = f"offsite {__version__}, Python {platform.python_version()}, pyspark {spark}"
    if sys.version_info < OLDEST_PYTHON:
        return failed(said, cure="use Python 3.11 or newer")
    if spark.partition(".")[0] != SPARK_MAJOR:
        return failed(
            said, cure=f"install the pyspark version that offsite needs: pip install 'pyspark=={SPARK_MAJOR}.*'"
        )
    return ok(said)


def java(_: Parts) -> CheckResult:
    """Whether a Java for Spark is installed. Raises `JavaMissing`."""
    runtime = find_java()
    return ok(f"Java {runtime.major} at {runtime.launcher}")


def limits(_: Parts) -> CheckResult:
    """Whether the limits of open files and processes are high enough."""
    try:
        import resource
    except ImportError:
        raise NotMeasurable("this system reports no process limits") from None
    files, processes = (resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC))
    said = f"open files {_shown(files)}, processes {_shown(processes)}"
    low = [
        f"ulimit {option} {least}"
        for option, limit, least in (("-n", files, OPEN_FILES_MIN), ("-u", processes, PROCESSES_MIN))
        if limit != _UNLIMITED and limit < least
    ]
    if low:
        return warning(said, cure=f"raise the limits where offsite is started: {'; '.join(low)}")
    return ok(said)


def space(parts: Parts) -> CheckResult:
    """Whether there is free space for Spark's temporary files, and in the repository's folder."""
    places = {"temporary files": Path(tempfile.gettempdir())}
    folder = None if parts.request.repo is None else parts.store.folder
    if folder is not None and folder.is_dir():
        places["repository"] = folder
    free = {purpose: shutil.disk_usage(place).free for purpose, place in places.items()}
    said = "; ".join(f"{format_size(free[purpose])} free for {purpose} in {place}" for purpose, place in places.items())
    if min(free.values()) < NOTHING_BYTES:
        return failed(said, cure="free some space, or set TMPDIR to a larger disk")
    if min(free.values()) < LITTLE_BYTES:
        return warning(said, cure="free some space, or set TMPDIR to a larger disk")
    return ok(said)


def memory(_: Parts) -> CheckResult:
    """Whether this machine can remember seen heads, and where. Without the memory no replaced store is noticed, and no
    expired data is collected."""
    try:
        place = memory_root()
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=place):
            pass
    except (OSError, RuntimeError) as error:
        return warning(
            f"the last seen state of backups cannot be stored: {error}",
            cure="set XDG_STATE_HOME to a persistent folder that this user may write",
        )
    said = f"the last seen state of backups is stored in {place}"
    if _is_temporary(place):
        return warning(
            f"{said}, which is a place for temporary files",
            cure="set XDG_STATE_HOME to a persistent folder; in a container, on a volume",
        )
    return ok(said)


def _is_temporary(place: Path) -> bool:
    return place.is_relative_to(tempfile.gettempdir())


def _shown(limit: int) -> str:
    return "unlimited" if limit == _UNLIMITED else f"{limit:,}"


def store_clock(parts: Parts) -> CheckResult:
    """The difference between this machine's clock and the store's, measured by the modification time of a fresh
    object."""
    began_ms = parts.clock.now_ms()
    key = parts.probe_key()
    try:
        parts.store.put_if_absent(key, b"")
        ended_ms = parts.clock.now_ms()
        info = parts.store.head(key)
    finally:
        parts.remove_probes()
    if info is None:
        raise NotMeasurable("the time of the test object cannot be read")
    apart_ms = _outside(info.modified_ms, began_ms - ROUNDED_MS, ended_ms + ROUNDED_MS)
    said = _told("the store", apart_ms)
    if abs(apart_ms) > MOST_APART_MS:
        return failed(f"{said}; nothing will be deleted by age", cure=CURE)
    return warning(said, cure=CURE) if abs(apart_ms) > NOTICED_MS else ok(f"{said}, measured with a test object")


def cluster_clock(parts: Parts) -> CheckResult:
    """Whether the brokers' clocks are close. Brokers stamp the commits of consumer groups, and can find commits after a
    given time. Kafka has no request for the time itself."""
    topic = parts.router.metadata([GROUPS_TOPIC]).topics.get(GROUPS_TOPIC)
    partitions = (
        [TopicPartition(topic=GROUPS_TOPIC, partition=partition.partition) for partition in topic.partitions]
        if topic
        else []
    )
    if not partitions:
        raise NotMeasurable(
            "no group has committed yet, or the log of groups is not visible: the brokers' time is unknown"
        )
    now_ms = parts.clock.now_ms()
    if ahead := _stamped_since(parts, partitions, now_ms + NOTICED_MS):
        apart_ms = max(ahead) - now_ms
        return warning(_told("a broker", apart_ms), cure=CURE)
    span = format_duration(MOST_APART_MS / 1000)
    if not _stamped_since(parts, partitions, now_ms - MOST_APART_MS):
        raise NotMeasurable(f"no group has committed in the last {span}: the brokers' time is unknown")
    return ok(f"brokers stamped commits of groups within the last {span}, and none in the future")


def _stamped_since(parts: Parts, partitions: Sequence[TopicPartition], time_ms: int) -> list[int]:
    """The timestamps of the first records at or after a time, one for each partition with such a record."""
    shares = parts.router.by_leader(partitions)
    answers = parts.router.call_each({node: list_offsets_request(share, time_ms) for node, share in shares.items()})
    return [
        answer.timestamp_ms
        for by_partition in answers.values()
        for answer in by_partition.values()
        if not answer.error_code and answer.offset >= 0 and answer.timestamp_ms >= time_ms
    ]


def _outside(time_ms: int, start_ms: int, end_ms: int) -> int:
    """How far a time lies after `[start_ms, end_ms]`, negative before, 0 within."""
    return max(0, time_ms - end_ms) + min(0, time_ms - start_ms)


def _told(whose: str, apart_ms: int) -> str:
    if not apart_ms:
        return f"{whose} and this machine have the same time"
    return f"the clock of {whose} is {format_duration(abs(apart_ms) / 1000)} {'ahead' if apart_ms > 0 else 'behind'}"
