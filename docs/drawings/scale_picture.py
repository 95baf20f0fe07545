"""The picture of docs/explanation/scale.md: what one large partition does to a backup, a restore and its proof.

Both axes are logarithmic. Curves are told apart by words beside them and by their pattern, not by colour alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import log10

from bench.at_scale.results import LARGEST, Results, in_tb
from bench.at_scale.said import chain_s, copied_s

from .svg import HEAD, LINE, WIDTH, framed, text

NAME = "scale-largest.svg"
LEFT, RIGHT, TOP, BOTTOM, HEIGHT = 70, 190, 50, 60, 340
HOURS = (0.5, 1, 2, 5, 10, 20, 50)
"""The lines across."""

ALONE = "the largest partition, alone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    name: str
    style: str
    seconds: tuple[float, ...]


def scale_picture(results: Results) -> str:
    world = results.by_largest[0].world
    of_what = f"{world.name} in {world.partitions:,} partitions on {world.executors} executors"
    shown = curves(results)
    told = "; ".join(f"{curve.name}: {_told(curve)}" for curve in shown)
    parts = [*_axes(), *(part for curve in shown for part in _curve(curve))]
    description = f"Hours by the size of the largest partition. {told}."
    return framed(f"{of_what}: hours by the largest partition", description, parts, height=HEIGHT)


def curves(results: Results) -> tuple[Curve, ...]:
    """Each with a time for each of `LARGEST`."""
    shown = results.by_largest
    alone = (chain_s(each.world, results.costs.restore.mib_ms) for each in shown)
    return (
        Curve(name="restore", style="unclean", seconds=tuple(each.restore.seconds for each in shown)),
        Curve(name="its proof", style="group", seconds=tuple(each.proof.seconds for each in shown)),
        Curve(name="backup, until all is copied", style="end", seconds=tuple(map(copied_s, shown))),
        Curve(name=ALONE, style="open", seconds=tuple(alone)),
    )


def _told(curve: Curve) -> str:
    pairs = ((curve.seconds[0], LARGEST[0]), (curve.seconds[-1], LARGEST[-1]))
    return ", ".join(f"{seconds / 3600:.1f} h with {in_tb(size)}" for seconds, size in pairs)


def _axes() -> Iterator[str]:
    for hours in HOURS:
        y = _y(hours)
        yield f'<line class="axis" x1="{LEFT}" y1="{y}" x2="{WIDTH - RIGHT}" y2="{y}"/>'
        yield text(LEFT - 8, y + 4, f"{hours:g} h", "small soft", anchor="end")
    for size in LARGEST:
        yield text(_x(size), HEIGHT - BOTTOM + LINE, in_tb(size), "small soft", anchor="middle")
    yield text(LEFT, HEIGHT - BOTTOM + LINE + HEAD, "size of the largest partition, of the same total", "small")


def _curve(curve: Curve) -> Iterator[str]:
    places = [(_x(size), _y(seconds / 3600)) for size, seconds in zip(LARGEST, curve.seconds, strict=True)]
    points = " ".join(f"{x},{y}" for x, y in places)
    yield f'<polyline class="{curve.style}" fill="none" points="{points}"/>'
    if curve.name == ALONE:  # it ends where the restore ends
        yield text(places[0][0] + 45, places[0][1] - 2, curve.name, "small")
    else:
        yield text(places[-1][0] + 8, places[-1][1] + 4, curve.name, "small")


def _x(size: int) -> float:
    low, high = log10(LARGEST[0]), log10(LARGEST[-1])
    return round(LEFT + 20 + (log10(size) - low) / (high - low) * (WIDTH - LEFT - RIGHT - 40), 1)


def _y(hours: float) -> float:
    low, high = log10(HOURS[0]), log10(HOURS[-1])
    return round(HEIGHT - BOTTOM - (log10(hours) - low) / (high - low) * (HEIGHT - BOTTOM - TOP), 1)
