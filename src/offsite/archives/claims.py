"""What names and numbers in an archive may claim: Kafka's limits, the same for every format.

A file name alone makes a partition, and a topic is as wide as its highest one: a name of nine digits would cost whoever
lists the topic gigabytes. An offset is below 2^63 - 1, because the one behind it must be a number too.
"""

from __future__ import annotations

from offsite.model.errors import DamagedArchive
from offsite.model.untrusted.bounds import MAX_OFFSET, MAX_PARTITIONS

__all__ = ["check_claims", "is_partition"]

_HINT = "move the file out of the archive if it does not belong there"


def is_partition(number: int) -> bool:
    return 0 <= number < MAX_PARTITIONS


def check_claims(file: str, *, partition: int, start: int = 0) -> None:
    """Of the name of `file`. Raises `DamagedArchive` for a partition that no topic, an offset that no record has."""
    if not is_partition(partition):
        raise DamagedArchive(f"{file}: no topic has a partition {partition}, at most {MAX_PARTITIONS:,}", hint=_HINT)
    if not 0 <= start < MAX_OFFSET:
        raise DamagedArchive(f"{file}: no record has offset {start}", hint=_HINT)
