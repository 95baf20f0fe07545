"""The checked-in list of jars: which ones the sandbox needs and what their bytes must be. Never downloads."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from offsite.model.errors import DamagedJar
from offsite.sandbox.versions import KAFKA_VERSION


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
