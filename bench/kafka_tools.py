"""Kafka's own performance tools, started as Kafka's own scripts start them, and what they say of themselves."""

from __future__ import annotations

import resource
import time
from dataclasses import dataclass
from pathlib import Path

from offsite.sandbox import run_tool
from offsite.sandbox.jars import CONSUMER_PERFORMANCE, PRODUCER_PERFORMANCE

MIB_TO_MB = 1.048576  # the tools say MB and mean MiB
TOOL_LIMIT_S = 600.0
JVM_FLAGS = (  # kafka-run-class.sh, and the -Xmx of both tools' scripts
    "-Xmx512m",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRun:
    """`elapsed_s` is that of the whole process, `claimed_mb_s` what the tool prints of its own speed."""

    elapsed_s: float
    cpu_s: float
    claimed_mb_s: float


def produce(bootstrap: str, topic: str, *, records: int, payload: Path, codec: str) -> ToolRun:
    """ProducerPerformance with the producer's defaults (acks=all, idempotent, batch.size 16384), but the codec."""
    arguments = ["--topic", topic, "--num-records", str(records), "--throughput", "-1"]
    arguments += ["--payload-file", str(payload)]
    arguments += ["--producer-props", f"bootstrap.servers={bootstrap}", f"compression.type={codec}", "acks=all"]
    printed, elapsed_s, cpu_s = _run(PRODUCER_PERFORMANCE, arguments)
    claimed = printed.splitlines()[-1].partition("(")[2].partition(" MB/sec")[0]
    return ToolRun(elapsed_s=elapsed_s, cpu_s=cpu_s, claimed_mb_s=float(claimed) * MIB_TO_MB)


def consume(bootstrap: str, topic: str, *, records: int) -> ToolRun:
    """ConsumerPerformance with its defaults. It counts neither the start of its JVM nor writes anything."""
    arguments = ["--topic", topic, "--messages", str(records), "--bootstrap-server", bootstrap]
    printed, elapsed_s, cpu_s = _run(CONSUMER_PERFORMANCE, arguments)
    names, values = [line.split(", ") for line in printed.splitlines() if ", " in line][-2:]
    line = dict(zip(names, values, strict=True))
    if int(line["data.consumed.in.nMsg"]) < records:
        raise SystemExit(f"ConsumerPerformance read {line['data.consumed.in.nMsg']} of {records} records")
    return ToolRun(elapsed_s=elapsed_s, cpu_s=cpu_s, claimed_mb_s=float(line["MB.sec"]) * MIB_TO_MB)


def _run(main_class: str, arguments: list[str]) -> tuple[str, float, float]:
    start_s, start_cpu_s = time.perf_counter(), _ended_children_cpu_s()
    printed = run_tool(main_class, arguments, flags=JVM_FLAGS, limit_s=TOOL_LIMIT_S)
    return printed, time.perf_counter() - start_s, _ended_children_cpu_s() - start_cpu_s


def _ended_children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
