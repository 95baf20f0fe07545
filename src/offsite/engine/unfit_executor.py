"""Errors for executors with another offsite, and for executors whose Python cannot run any.

Spark's message is the end of a job: after all attempts at one task, in seconds, with the stderr of the executor's
Python, shell or PEX somewhere in the text. Every such error would occur again with the next task.
"""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Callable

from offsite.model.errors import ExecutorDiffers, OffsiteError, SparkFailed
from offsite.model.version import __version__

_PACK = "send this offsite to executors: run offsite spark pack, then use --spark-archive with the file"
_OWN = f"{sys.version_info.major}.{sys.version_info.minor}"
_SAME_PYTHON = f"executors need a Python {_OWN}, on PATH or named by spark.executorEnv.PEX_PYTHON"

_EXAMINED = re.compile(
    r"Failed to find (?:a )?compatible (?:interpreter|PEX_PYTHON).*?"
    r"\b1\.\)\s+(?P<python>\S+)\s+\w+==(?P<version>\d+\.\d+)",
    re.DOTALL,
)


def check_version(sent: str) -> None:
    """Check in a worker that this offsite has version `sent`, the version of the sender. Raises `ExecutorDiffers`:
    another version may read and write differently from the planning version."""
    if sent != __version__:
        raise _other_offsite(socket.gethostname(), __version__, sent)


def unfit_executor(message: str) -> OffsiteError | None:
    """Return the error for a failed job with Spark's `message`; None when the message does not concern an executor's
    Python."""
    for pattern, error in _KNOWN:
        if match := pattern.search(message):
            return error(match)
    return None


def _other_offsite(host: str, actual: str, expected: str) -> OffsiteError:
    return ExecutorDiffers(  # the text comes from an executor of another version, so `_KNOWN` must know it
        f"the executor on {host} has offsite {actual}, and this one is {expected}",
        hint="send this version to executors: offsite spark pack, --spark-archive; or install it on each executor",
    )


def _no_offsite(_: re.Match[str]) -> OffsiteError:
    return SparkFailed("the Python of an executor cannot import offsite", hint=_PACK)


def _no_python(_: re.Match[str]) -> OffsiteError:
    return SparkFailed("an executor has no Python on its PATH to run the archive with", hint=_SAME_PYTHON)


def _not_run(match: re.Match[str]) -> OffsiteError:
    return SparkFailed(f"an executor cannot run {match[1]} as its Python: {match[2].strip()}", hint=_PACK)


def _no_fit(match: re.Match[str]) -> OffsiteError:
    """The error for PEX's list of inspected interpreters."""
    if match["version"] == _OWN:
        return ExecutorDiffers(
            f"the archive has no libraries for the Python {match['python']} of an executor's machine",
            hint="run offsite spark pack on a machine like the executors",
        )
    return _differs(f"{match['version']} ({match['python']})")


def _other_python(match: re.Match[str]) -> OffsiteError:
    return _differs(match[1])


def _differs(python: str) -> OffsiteError:
    return ExecutorDiffers(f"an executor has Python {python}, but this is Python {_OWN}", hint=_SAME_PYTHON)


_KNOWN: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], OffsiteError]], ...] = (
    (
        re.compile(r"the executor on (\S+) has offsite (\S+), and this one is (\S+)"),
        lambda match: _other_offsite(match[1], match[2], match[3]),
    ),
    (re.compile(r"No module named '?offsite\b"), _no_offsite),
    (re.compile(r"Failed to find any of these python binaries on the PATH"), _no_python),
    (_EXAMINED, _no_fit),
    (re.compile(r"PYTHON_VERSION_MISMATCH\] Python in worker has different version: (\d\.\d+)"), _other_python),
    (re.compile(r'Cannot run program "([^"]+)"[^:]*: (?:error=\d+, )?(.*)'), _not_run),
)
