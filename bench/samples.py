"""Figures as they come, by name, and what they amount to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from statistics import median


class Samples:
    """Named series of floats; a name ends in its unit."""

    def __init__(self) -> None:
        self._series: dict[str, list[float]] = defaultdict(list)

    def add(self, **figures: float) -> None:
        for name, figure in figures.items():
            self._series[name].append(figure)

    def all(self) -> Mapping[str, list[float]]:
        return {name: [_rounded(figure) for figure in series] for name, series in self._series.items()}

    def medians(self) -> Mapping[str, float]:
        return {name: _rounded(median(series)) for name, series in self._series.items()}

    def ratio(self, above: str, below: str) -> float:
        """The median of the ratios within each repeat: what slows the machine down for a while slows down both."""
        pairs = zip(self._series[above], self._series[below], strict=True)
        return round(median(one / other for one, other in pairs), 2)


def _rounded(figure: float) -> float:
    return round(figure, 1 if figure >= 100 else 3)
