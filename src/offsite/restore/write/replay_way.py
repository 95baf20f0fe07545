"""How offsets without a record come back: outcomes of transactions, and gaps. The costs were measured with Kafka 4.1 on
two busy cores, and serve decisions."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayWay:
    """`direct`: this process writes outcomes into the log, with the right ClusterAction on the cluster; otherwise every
    outcome is a transaction of its own. `outcome_s`, `gap_s`: seconds for one offset of a partition; `gaps_max`: most
    offsets of a partition without a record that can be filled; `open_part`: share of the brokers' limit for open
    transactions that remains for a transaction of the source."""

    direct: bool
    outcome_s: float
    gap_s: float
    gaps_max: int
    open_part: float = 1.0

    @property
    def filler(self) -> str:
        """The filler of gaps, in words for people."""
        return "control records" if self.direct else "empty transactions"


DIRECT = ReplayWay(direct=True, outcome_s=0.001, gap_s=0.000_05, gaps_max=2**62, open_part=0.8)
BY_COORDINATOR = ReplayWay(direct=False, outcome_s=0.015, gap_s=0.002, gaps_max=20_000)
"""Gaps are filled in less than a minute."""
