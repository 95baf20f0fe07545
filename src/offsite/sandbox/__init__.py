"""A real Kafka for demos and tests, one broker or several: jars, start and stop, command line tools."""

from __future__ import annotations

from offsite.sandbox.broker import Sandbox, SandboxInfo, SandboxNode
from offsite.sandbox.jars import run_tool
from offsite.sandbox.java import Java, find_java
from offsite.sandbox.settings import SandboxSettings, Security, Tls
from offsite.sandbox.versions import KNOWN_VERSIONS

__all__ = [
    "KNOWN_VERSIONS",
    "Java",
    "Sandbox",
    "SandboxInfo",
    "SandboxNode",
    "SandboxSettings",
    "Security",
    "Tls",
    "find_java",
    "run_tool",
]
