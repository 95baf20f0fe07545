"""`make bench`: what one backup, check and restore take on this machine, next to Kafka's own performance tools.

Everything as a user runs it: the command line in processes of their own, start-up included. Options by environment:
BENCH_MIB (payload, 512) and BENCH_RECORD_BYTES (200). Writes below a temporary folder only; prints one table.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from offsite.sandbox import Sandbox, SandboxInfo, Settings, run_tool
from offsite.sandbox.tools import CONSUMER_PERFORMANCE, PRODUCER_PERFORMANCE, TOPIC_COMMAND

MIB = 1024 * 1024
PARTITIONS = 4
TOPIC, RESTORED = "bench", "bench-restored"
TOOL_LIMIT_S = 1800.0  # the Java tools at their slowest, with the largest payload that is any fun
JVM_FLAGS = ("-Xmx1g",)  # the tools with all that the JVM can do: they are what offsite is compared with


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How much is written and read."""

    records: int
    record_bytes: int

    @property
    def payload_mib(self) -> float:
        return self.records * self.record_bytes / MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One line of the table. Only a step that moves the payload has a rate."""

    name: str
    run: Callable[[], None]
    moves_payload: bool = True


def main() -> None:
    load = load_from(os.environ)
    with tempfile.TemporaryDirectory(prefix="offsite-bench-") as folder, broker(Path(folder, "kafka")) as info:
        repository = str(Path(folder, "repository"))
        steps = (
            Step(name="Java producer tool", run=lambda: fill(info, load)),
            Step(name="Java consumer tool (writes nothing)", run=lambda: read(info, load)),
            Step(name="offsite backup", run=lambda: back_up(info, repository, load.records)),
            Step(name="offsite backup, nothing new", run=lambda: back_up(info, repository, 0), moves_payload=False),
            Step(name="offsite verify --deep", run=lambda: verify(repository)),
            Step(name="offsite restore", run=lambda: restore(info, repository, load.records)),
        )
        offsite("init", repository)
        print(f"{load.records:,} records of {load.record_bytes} bytes, {PARTITIONS} partitions, {os.cpu_count()} cores")
        for step in steps:
            print(line(step, seconds(step.run), load), flush=True)


def load_from(environment: os._Environ[str]) -> Load:
    record_bytes = int(environment.get("BENCH_RECORD_BYTES", "200"))
    return Load(records=int(environment.get("BENCH_MIB", "512")) * MIB // record_bytes, record_bytes=record_bytes)


@contextmanager
def broker(folder: Path) -> Iterator[SandboxInfo]:
    sandbox = Sandbox(folder)
    try:
        yield sandbox.start(settings=Settings(long_run=True, heap_mib=1024), owned=True, progress=print)
    finally:
        sandbox.stop()


def fill(info: SandboxInfo, load: Load) -> None:
    create = ["--create", "--topic", TOPIC, "--partitions", str(PARTITIONS), "--bootstrap-server", info.bootstrap]
    run_tool(TOPIC_COMMAND, create)
    records = ["--num-records", str(load.records), "--record-size", str(load.record_bytes), "--throughput", "-1"]
    properties = ["--producer-props", f"bootstrap.servers={info.bootstrap}", "batch.size=200000", "linger.ms=20"]
    run_tool(PRODUCER_PERFORMANCE, ["--topic", TOPIC, *records, *properties], flags=JVM_FLAGS, limit_s=TOOL_LIMIT_S)


def read(info: SandboxInfo, load: Load) -> None:
    arguments = ["--topic", TOPIC, "--messages", str(load.records), "--bootstrap-server", info.bootstrap]
    run_tool(CONSUMER_PERFORMANCE, arguments, flags=JVM_FLAGS, limit_s=TOOL_LIMIT_S)


def back_up(info: SandboxInfo, repository: str, records: int) -> None:
    at = ["--repo", repository, "--backup", "bench", "--bootstrap", info.bootstrap]
    expect_records(offsite("backup", "run", *at, "--topics", TOPIC), records)


def verify(repository: str) -> None:
    offsite("verify", "--repo", repository, "--backup", "bench", "--deep")


def restore(info: SandboxInfo, repository: str, records: int) -> None:
    at = ["--repo", repository, "--backup", "bench", "--bootstrap", info.bootstrap]
    expect_records(offsite("restore", "run", *at, "--rename", f"{TOPIC}={RESTORED}", "--yes"), records)


def offsite(*arguments: str) -> dict[str, object]:
    """The JSON result of one command; its complaints go to our stderr."""
    command = [sys.executable, "-c", "from offsite.cli.main import main; main()", *arguments, "-o", "json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, object] = json.loads(done.stdout)
    return result


def expect_records(result: dict[str, object], records: int) -> None:
    """A fast copy of too little is no result."""
    if result["records"] != records:
        raise SystemExit(f"expected {records} records, got {result['records']}")


def seconds(step: Callable[[], None]) -> float:
    start_s = time.perf_counter()
    step()
    return time.perf_counter() - start_s


def line(step: Step, duration_s: float, load: Load) -> str:
    rate = f"{load.payload_mib / duration_s:8.0f} MiB/s" if step.moves_payload else ""
    return f"{step.name:38} {duration_s:7.1f} s {rate}".rstrip()


if __name__ == "__main__":
    main()
