"""Why Java did not start, from its output: the line with the cause, and a remedy."""

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
"""Spark's class path alone has about 100 jars. With fewer open files a JVM prints anything but the real cause."""

_OPTIONS_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
"""Every Java takes the options in the variables, whoever starts it."""

_NOISE = re.compile(
    r"at .*|\.\.\. \d+ (?:more|common).*|\[.*\]\[(?:info|warning) *\]\[.*|(?:NOTE: )?Picked up .*|#?"
    r"|Error: Could not create the Java Virtual Machine\.|Error: A fatal exception has occurred\. .*"
    r"|Error occurred during initialization of VM|# A fatal error has been detected .*"
)
"""Lines of a stack, of Java's own log, and lines that tell nothing but the failure."""

_INNERMOST = re.compile(r"^\s*(?:Caused by: (.+)|(Exception in thread .+))$", re.MULTILINE)
_TELLING = re.compile(r"(?:Error|Unrecognized|Invalid|Could not|Conflicting|# There is|\S+Error: ).*")

_HINTS = (
    ("too many open files", "raise the limit of open files: ulimit -n 1024, or LimitNOFILE= of a unit"),
    ("UnknownHostException", "add an address for that name in /etc/hosts or in DNS"),
    ("no space left", "free space there, or set TMPDIR to a folder with free space"),
    ("operation not permitted|failed to map segment", "set TMPDIR to a folder that is not mounted with noexec"),
    (
        "insufficient memory|not enough space|allocat|out ?of ?memory|could not reserve|killed|native thread",
        "free memory, or raise the limit: of the container, or ulimit -v and -u",
    ),
    (
        "network is unreachable|assign requested",
        "Spark talks to itself at 127.0.0.1: enable the loopback interface (ip link set lo up)",
    ),
    ("invalid UID|null input: name", "add this user to /etc/passwd, or run as a user with an entry there"),
)
JAVA_HOME_HINT = "JAVA_HOME must be the folder that contains bin/java: correct it, or unset it to use the java on PATH"
DEFAULT_HINT = "check that java -version works and memory is free, then run again"


def find_cause(written: str, *, exit_code: int | None = None) -> str:
    """Return the line with the cause in a JVM's output `written`: the innermost exception, else the first line with
    more than the failure, else the last line. `exit_code`: of the JVM, if ended."""
    lines = [line for raw in written.splitlines() if not _NOISE.fullmatch(line := raw.strip())]
    telling = [line for line in lines if _TELLING.fullmatch(line)]
    words = innermost_exception(written) or "".join(telling[:1] or lines[-1:])
    if exit_code is not None and (name := _signal(exit_code)):
        return f"it was killed by {name}"
    return words[:WORDS_MAX] or f"exit code {exit_code}, without output"


def innermost_exception(trace: str) -> str:
    """Return the innermost cause in a Java stack trace, empty without one."""
    matches = list(_INNERMOST.finditer(trace))
    return (matches[-1][1] or matches[-1][2]).strip()[:WORDS_MAX] if matches else ""


def folder_to_start_in(other: Path) -> Path | None:
    """Return `other` where the working folder was deleted, because no Java starts in a deleted folder. None for an
    existing folder: a process under another user (`sudo -u`) may be in a folder without the right to enter it again."""
    try:
        Path.cwd()
    except FileNotFoundError:
        return other
    return None


def hint_here(words: str) -> str:
    """Return a remedy for the `words` of a JVM started by this process."""
    return hint_for(words, os.environ, open_files=resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def hint_for(words: str, environment: Mapping[str, str], *, open_files: int) -> str:
    """Return a remedy for the `words` of a JVM started with `environment` and able to open `open_files` files."""
    if open_files != resource.RLIM_INFINITY and open_files < OPEN_FILES_MIN:
        return f"it may open {open_files} files: {_HINTS[0][1]}"
    hints = [hint for pattern, hint in _HINTS if re.search(pattern, words, re.IGNORECASE)]
    option_variables = [name for name in _OPTIONS_VARIABLES if environment.get(name)]
    if option_variables and not hints:
        hints = [f"every Java process uses the options in {', '.join(option_variables)}: correct or remove them"]
    return "".join(hints[:1]) or DEFAULT_HINT


def _signal(exit_code: int) -> str:
    """Return the name of the signal behind the exit code: a shell and the system report a signal differently."""
    number = -exit_code if exit_code < 0 else exit_code - 128
    return signal.Signals(number).name if number in {*map(int, signal.Signals)} else ""
