"""Which Kafka versions the sandbox can be, what differs between them, and which jars each of them needs.

The lists of jars are checked in, with what the bytes of each must be. Nothing is downloaded here. A version is added by
its list of jars and a line here: `docs/change/kafka-version.md`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from offsite.model.errors import BadOption, DamagedJar

KAFKA_VERSION = "4.1.1"
"""What the sandbox is unless another one is asked for."""
KNOWN_VERSIONS = ("2.7.2", "2.8.2", "3.9.1", "4.1.1", "4.2.0")
"""2.7.2: the last one without topic ids; 2.8.2: ids, but nothing that describes transactions; 3.9.1: the last 3."""

# Brokers of 2 were made for Java 8 to 15 and look into these packages (compressors, direct buffers).
_OLD_OPENS = ("java.base/java.lang", "java.base/java.nio", "java.base/sun.nio.ch", "java.base/java.util")


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaVersion:
    """One of `KNOWN_VERSIONS`."""

    number: str

    @property
    def needs_zookeeper(self) -> bool:
        """KRaft is for use since 3.3."""
        return self._major < 3

    @property
    def logs_through_log4j_1(self) -> bool:
        return self._major < 4

    @property
    def jvm_flags(self) -> tuple[str, ...]:
        return tuple(f"--add-opens={each}=ALL-UNNAMED" for each in _OLD_OPENS) if self.needs_zookeeper else ()

    @property
    def _major(self) -> int:
        return int(self.number.partition(".")[0])


def known_version(number: str) -> KafkaVersion:
    """The version of that number. Raises `BadOption`, which lists the known ones."""
    if number not in KNOWN_VERSIONS:
        raise BadOption(f"the sandbox has no Kafka {number}", hint=f"choose one of {', '.join(KNOWN_VERSIONS)}")
    return KafkaVersion(number=number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Jar:
    """One jar by its Maven coordinate and the SHA-256 (hex) of its bytes."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def file_name(self) -> str:
        return f"{self.artifact}-{self.version}.jar"


def kafka_jars(version: str = KAFKA_VERSION) -> tuple[Jar, ...]:
    """Every jar of that Kafka, none of them through another one's dependencies: the list is complete."""
    text = resources.files(__package__).joinpath(f"kafka-{version}.sha256").read_text(encoding="ascii")
    return tuple(_jar_of(line) for line in text.splitlines() if line and not line.startswith("#"))


def verify(folder: Path, jars: tuple[Jar, ...]) -> None:
    """Return only when each jar is in the folder with exactly its recorded bytes; else raise DamagedJar."""
    for jar in jars:
        path = folder / jar.file_name
        if not path.is_file():
            raise _damaged(path, "is missing")
        if hashlib.sha256(path.read_bytes()).hexdigest() != jar.sha256:
            raise _damaged(path, "does not have its recorded SHA-256")


def _jar_of(line: str) -> Jar:
    sha256, coordinate = line.split()
    group, artifact, version = coordinate.split(":")
    return Jar(group=group, artifact=artifact, version=version, sha256=sha256)


def _damaged(path: Path, what: str) -> DamagedJar:
    return DamagedJar(f"{path} {what}", hint=f"delete the folder {path.parent} and try again: it is fetched anew")
