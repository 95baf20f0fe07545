"""What reading one mutant may cost."""

from __future__ import annotations

from dataclasses import dataclass

from offsite.model.units import MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """`seconds` are of processors, for a busy machine is no failure; `patience_s` by the clock, for who waits in vain.
    `memory_bytes` holds for the peak of the process, and for what is asked for on top of what it took before."""

    seconds: float = 10.0
    memory_bytes: int = 1024 * MIB

    @property
    def patience_s(self) -> float:
        return 10 * self.seconds

    @property
    def arguments(self) -> list[str]:
        return [str(self.seconds), str(self.memory_bytes)]

    @classmethod
    def of(cls, arguments: list[str]) -> Limits:
        seconds, memory_bytes = arguments
        return cls(seconds=float(seconds), memory_bytes=int(memory_bytes))
