"""This machine: versions, Java, limits of the operating system, free space."""

from __future__ import annotations

import platform
import shutil
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from offsite.doctor.check import CheckResult, NotMeasurable, failed, ok, warning
from offsite.doctor.parts import Parts
from offsite.model.units import GIB, MIB, format_size
from offsite.model.version import __version__
from offsite.repository.heads import memory_root
from offsite.sandbox import find_java
from offsite.stores.posix_store import PosixStore

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
    if parts.request.repo is not None and isinstance(parts.store, PosixStore) and parts.store.root.is_dir():
        places["repository"] = parts.store.root
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
