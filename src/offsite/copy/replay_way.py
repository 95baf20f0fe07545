"""How what is no record gets its offset back: outcomes of transactions, and gaps. What each takes was measured with
Kafka 4.1 on two busy cores, and is a figure to decide by."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayWay:
    """`direct`: outcomes are written into the log by us, which needs ClusterAction on the cluster; else each of them is
    a transaction of its own. `outcome_s`, `gap_s`: seconds for one offset of a partition; `gaps_max`: offsets of a
    partition without a record that can be filled; `open_part`: of the time that brokers leave a transaction open, what
    is left for one of the source's."""

    direct: bool
    outcome_s: float
    gap_s: float
    gaps_max: int
    open_part: float = 1.0

    @property
    def filler(self) -> str:
        """What fills gaps, for people."""
        return "control records" if self.direct else "empty transactions"


DIRECT = ReplayWay(direct=True, outcome_s=0.001, gap_s=0.000_05, gaps_max=2**62, open_part=0.8)
BY_COORDINATOR = ReplayWay(direct=False, outcome_s=0.015, gap_s=0.002, gaps_max=20_000)
"""Gaps are filled in less than a minute."""
