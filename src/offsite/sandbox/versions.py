"""Which Kafka versions the sandbox can be, and what differs between them. Pure.

A version is added by its list of jars and a line here: `docs/change/kafka-version.md`.
"""

from __future__ import annotations

from dataclasses import dataclass

from offsite.model.errors import BadOption

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
    """Raises `BadOption`, which lists the known ones."""
    if number not in KNOWN_VERSIONS:
        raise BadOption(f"the sandbox has no Kafka {number}", hint=f"choose one of {', '.join(KNOWN_VERSIONS)}")
    return KafkaVersion(number=number)
