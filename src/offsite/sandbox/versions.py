"""Kafka versions of the sandbox, their differences, and their jars.

The lists of jars are checked in, with the hash of every jar. Nothing is downloaded here. A new version needs a list of
jars and a line here: `docs/change/kafka-version.md`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from offsite.model.errors import BadOption, DamagedJar

KAFKA_VERSION = "4.1.1"
"""The default version of the sandbox."""
KNOWN_VERSIONS = ("2.7.2", "2.8.2", "3.9.1", "4.1.1", "4.2.0", "4.2.2", "4.3.1", "4.4.0")
"""2.7.2: the last without topic ids; 2.8.2: ids, but no API that describes transactions; 3.9.1: the last 3; 4.1.1: the
last that refuses a streams application whose group was committed before; 4.2.0: converts such a group, and cannot load
it again after a compaction (KAFKA-20254); 4.2.2: can; 4.3.1: is told from 4.2 by its APIs; 4.4.0: limits what a request
holds, and has its feature levels in the metadata log."""

_LEVELS_IN_METADATA_LOG = (4, 4)
# Brokers of 2 were made for Java 8 to 15 and look into these packages (compressors, direct buffers).
_OLD_OPENS = ("java.base/java.lang", "java.base/java.nio", "java.base/sun.nio.ch", "java.base/java.util")


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaVersion:
    """A version of `KNOWN_VERSIONS`."""

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
        return tuple(f"--add-opens={package}=ALL-UNNAMED" for package in _OLD_OPENS) if self.needs_zookeeper else ()

    @property
    def keeps_levels_in_metadata_log(self) -> bool:
        """Since 4.4, formatting writes the feature levels as the first snapshot of the metadata log, and only on
        controllers (KIP-1170). Before, formatting writes a file of its own on every node."""
        return tuple(map(int, self.number.split("."))) >= _LEVELS_IN_METADATA_LOG

    @property
    def _major(self) -> int:
        return int(self.number.partition(".")[0])


def find_version(number: str) -> KafkaVersion:
    """Return the version of the number. Raises `BadOption` with the known versions."""
    if number not in KNOWN_VERSIONS:
        raise BadOption(f"the sandbox has no Kafka {number}", hint=f"choose one of {', '.join(KNOWN_VERSIONS)}")
    return KafkaVersion(number=number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Jar:
    """One jar: Maven coordinate and SHA-256 (hex) of the bytes."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def file_name(self) -> str:
        return f"{self.artifact}-{self.version}.jar"


def kafka_jars(version: str = KAFKA_VERSION) -> tuple[Jar, ...]:
    """Return every jar of the Kafka version, without transitive dependencies: the list is complete."""
    text = resources.files(__package__).joinpath(f"kafka-{version}.sha256").read_text(encoding="ascii")
    return tuple(_jar_of(line) for line in text.splitlines() if line and not line.startswith("#"))


def verify(folder: Path, jars: tuple[Jar, ...]) -> None:
    """Return when every jar is in the folder with exactly the recorded bytes; else raise DamagedJar."""
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


def _damaged(path: Path, problem: str) -> DamagedJar:
    return DamagedJar(
        f"{path} {problem}", hint=f"delete the folder {path.parent} and try again: the files are downloaded again"
    )
