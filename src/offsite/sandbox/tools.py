"""Kafka's own command line tools on the sandbox's class path: DumpLogSegments, the performance tools and their like."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from offsite.model.errors import SandboxFailed
from offsite.sandbox.jar_source import sources
from offsite.sandbox.jars import Progress, cache_folder, ensure_jars, ignore_progress
from offsite.sandbox.java import QUICK_START, Jvm, find_java

DUMP_LOG_SEGMENTS = "kafka.tools.DumpLogSegments"
PRODUCER_PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER_PERFORMANCE = "org.apache.kafka.tools.ConsumerPerformance"

TOOL_LIMIT_S = 120.0
LAST_LINES = 12


def run_tool(  # noqa: PLR0913  # keyword-only settings, each with a default
    main_class: str,
    arguments: Sequence[str],
    *,
    flags: Sequence[str] = QUICK_START,
    limit_s: float = TOOL_LIMIT_S,
    progress: Progress = ignore_progress,
    stdin: Path | None = None,
) -> str:
    """Run the tool and return stdout and stderr together. The tool reads the file `stdin`, or nothing.

    Raises SandboxFailed for an exit code other than 0 and after `limit_s`, and the errors of `Sandbox.start` about Java
    and the jars.
    """
    java = find_java()
    jvm = Jvm(java=java, jars=ensure_jars(cache_folder(), sources(java), progress))
    try:
        with (stdin or Path(os.devnull)).open("rb") as read:
            completed = subprocess.run(
                jvm.command(main_class, arguments, flags=flags),
                stdin=read,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=limit_s,
                check=False,
            )
    except subprocess.TimeoutExpired as error:
        raise SandboxFailed(f"{main_class} had not ended after {limit_s:g} s") from error
    if completed.returncode:
        last_lines = "\n".join(completed.stdout.splitlines()[-LAST_LINES:])
        raise SandboxFailed(f"{main_class} ended with code {completed.returncode}:\n{last_lines}")
    return completed.stdout
