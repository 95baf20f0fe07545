"""How a JVM of the sandbox is started: launcher, memory, class path. Knows nothing of what runs in it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from offsite.sandbox.jar_list import kafka_jars
from offsite.sandbox.java import Java
from offsite.sandbox.versions import KAFKA_VERSION

LONG_RUN = ("-XX:+UseSerialGC", "-XX:-UsePerfData")
QUICK_START = (*LONG_RUN, "-XX:TieredStopAtLevel=1")  # the quick compiler only


@dataclass(frozen=True, slots=True, kw_only=True)
class Jvm:
    """A runtime and the folder of verified jars on its class path, those of Kafka `version`."""

    java: Java
    jars: Path
    version: str = KAFKA_VERSION

    def command(self, main_class: str, arguments: Iterable[str], *, flags: Iterable[str] = QUICK_START) -> list[str]:
        return [str(self.java.launcher), *flags, "-cp", self._class_path(), main_class, *arguments]

    def _class_path(self) -> str:
        """Named one by one: a class data archive is only used with exactly the class path it was made with."""
        return ":".join(str(self.jars / jar.file_name) for jar in kafka_jars(self.version))
