"""A real application with a share group (`Jobs.java`): what it did, and what an administrator does for it."""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path

from offsite.sandbox.jars import cache_folder, run_tool
from offsite.sandbox.java import QUICK_START
from offsite.sandbox.versions import kafka_jars
from tests.java_program import java_program

_LIMIT_S, _IDLE_S = 180, 12
_FEATURES, _CONFIGS = "org.apache.kafka.tools.FeatureCommand", "kafka.admin.ConfigCommand"


def enable_share_groups(bootstrap: str) -> None:
    """Kafka 4.1 has them as a preview, 4.2 without a word."""
    run_tool(_FEATURES, ["--bootstrap-server", bootstrap, "upgrade", "--feature", "share.version=1"])


def set_reset(bootstrap: str, group: str, reset: str) -> None:
    """Where the group begins in a partition without a position."""
    which = ["--entity-type", "groups", "--entity-name", group]
    run_tool(
        _CONFIGS,
        ["--bootstrap-server", bootstrap, "--alter", *which, "--add-config", f"share.auto.offset.reset={reset}"],
    )


def jobs_done(
    bootstrap: str, group: str, topic: str, *, most: int = 1_000_000, first_s: int = 60, only_odd: bool = False
) -> list[str]:
    """The values of the jobs that a member did, until it had done `most`, had none for a while, or had not had the
    first after `first_s`. `only_odd`: it gave those at even offsets back."""
    arguments = [bootstrap, group, topic, str(most), str(first_s), str(_IDLE_S), "odd" if only_odd else "all"]
    done = subprocess.run([*_command(), *arguments], capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return [line.removeprefix("DONE ") for line in done.stdout.splitlines() if line.startswith("DONE ")]


@functools.cache
def _command() -> list[str]:
    """Raises `NoTool` where there is no compiler of Java."""
    jars = [cache_folder() / jar.file_name for jar in kafka_jars()]
    return java_program(Path(__file__).with_name("Jobs.java"), jars, [*QUICK_START, "-Xmx128m"])
