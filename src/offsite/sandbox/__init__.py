"""A real single-node Kafka for demos and tests: its jars, its start and stop, its command line tools."""

from __future__ import annotations

from offsite.sandbox.broker import Sandbox, SandboxInfo
from offsite.sandbox.java import Java, find_java
from offsite.sandbox.settings import Security, Settings, Tls
from offsite.sandbox.tools import run_tool

__all__ = ["Java", "Sandbox", "SandboxInfo", "Security", "Settings", "Tls", "find_java", "run_tool"]
