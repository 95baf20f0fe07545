"""Why a Java did not start, out of what it wrote: the line with the cause, and what to do about it."""

from __future__ import annotations

import os
import re
import resource
import signal
from collections.abc import Mapping
from pathlib import Path

WORDS_MAX = 400
"""Characters of a line: a JVM may quote a whole command."""

OPEN_FILES_MIN = 256
"""Spark's class path alone has about 100 jars. With fewer a JVM says anything but that it may open no more."""

_OPTIONS_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
"""Every Java takes the options in them, whoever starts it."""

_NOISE = re.compile(
    r"at .*|\.\.\. \d+ (?:more|common).*|\[.*\]\[(?:info|warning) *\]\[.*|(?:NOTE: )?Picked up .*|#?"
    r"|Error: Could not create the Java Virtual Machine\.|Error: A fatal exception has occurred\. .*"
    r"|Error occurred during initialization of VM|# A fatal error has been detected .*"
)
"""Lines of a stack, of Java's own log, and those that say nothing but that it has failed."""

_INNERMOST = re.compile(r"^\s*(?:Caused by: (.+)|(Exception in thread .+))$", re.MULTILINE)
_TELLING = re.compile(r"(?:Error|Unrecognized|Invalid|Could not|Conflicting|# There is|\S+Error: ).*")

_HINTS = (
    ("too many open files", "raise the limit of open files: ulimit -n 1024, or LimitNOFILE= of a unit"),
    ("UnknownHostException", "give that name an address: in /etc/hosts, or at the name server"),
    ("no space left", "free space there, or set TMPDIR to a folder with room"),
    ("operation not permitted|failed to map segment", "set TMPDIR to a folder that is not mounted with noexec"),
    (
        "insufficient memory|not enough space|allocat|out ?of ?memory|could not reserve|killed|native thread",
        "free memory, or raise the limit: of the container, or ulimit -v and -u",
    ),
    (
        "network is unreachable|assign requested",
        "Spark talks to itself at 127.0.0.1: bring that up (ip link set lo up)",
    ),
    ("invalid UID|null input: name", "give this user a line in /etc/passwd, or run as one that has one"),
)
JAVA_HOME_HINT = "JAVA_HOME is the folder in which bin/java is: correct it, or unset it to take the java on PATH"
DEFAULT_HINT = "check that java -version works and memory is free, then run again"


def cause(written: str, *, exit_code: int | None = None) -> str:
    """The line with the cause in what a JVM has `written`: the innermost exception, else the first that says more than
    that it has failed, else the last. `exit_code`: of its end, where it has ended."""
    lines = [line for each in written.splitlines() if not _NOISE.fullmatch(line := each.strip())]
    telling = [line for line in lines if _TELLING.fullmatch(line)]
    words = innermost(written) or "".join(telling[:1] or lines[-1:])
    if exit_code is not None and (name := _signal(exit_code)):
        return f"it was killed by {name}"
    return words[:WORDS_MAX] or f"exit code {exit_code}, without a word"


def innermost(trace: str) -> str:
    """The cause of the causes in a stack of Java's, empty where there is none."""
    found = list(_INNERMOST.finditer(trace))
    return (found[-1][1] or found[-1][2]).strip()[:WORDS_MAX] if found else ""


def folder_to_start_in(other: Path) -> Path | None:
    """The `other` where the working folder was deleted: no Java starts in it. None where it is there: who was made
    another user in it (`sudo -u`) may be in it, and may not be allowed to enter it again."""
    try:
        Path.cwd()
    except FileNotFoundError:
        return other
    return None


def hint_here(words: str) -> str:
    """What to do about `words` of a JVM that this process has started."""
    return hint_for(words, os.environ, open_files=resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def hint_for(words: str, environment: Mapping[str, str], *, open_files: int) -> str:
    """What to do about `words` of a JVM that was started with this `environment` and could open so many files."""
    if open_files != resource.RLIM_INFINITY and open_files < OPEN_FILES_MIN:
        return f"it may open {open_files} files: {_HINTS[0][1]}"
    hints = [hint for pattern, hint in _HINTS if re.search(pattern, words, re.IGNORECASE)]
    given = [name for name in _OPTIONS_VARIABLES if environment.get(name)]
    if given and not hints:
        hints = [f"every Java takes the options in {', '.join(given)}: correct them, or take them away"]
    return "".join(hints[:1]) or DEFAULT_HINT


def _signal(exit_code: int) -> str:
    """The name of the signal that ended it: a shell tells it in another way than the system."""
    number = -exit_code if exit_code < 0 else exit_code - 128
    return signal.Signals(number).name if number in {*map(int, signal.Signals)} else ""
