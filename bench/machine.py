"""What the figures were measured on. No names and no addresses: figures are published."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from offsite import __version__
from offsite.sandbox import find_java
from offsite.sandbox.versions import kafka_jars


def describe_machine() -> Mapping[str, str | int]:
    return {
        "cpu": _line_of("/proc/cpuinfo", "model name"),
        "cores": os.cpu_count() or 0,
        "memory_mib": int(_line_of("/proc/meminfo", "MemTotal").split()[0]) // 1024,
        "kernel": platform.release(),
        "python": platform.python_version(),
        "java": find_java().major,
        "kafka": _kafka_version(),
        "spark": version("pyspark"),
        "offsite": __version__,
    }


def _line_of(path: str, name: str) -> str:
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        if line.startswith(name):
            return line.partition(":")[2].strip()
    return "0"


def _kafka_version() -> str:
    clients = next(jar.file_name for jar in kafka_jars() if jar.file_name.startswith("kafka-clients"))
    return clients.removeprefix("kafka-clients-").removesuffix(".jar")
