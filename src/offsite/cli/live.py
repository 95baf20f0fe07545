"""A screen that renews itself in place, for people who watch: the lines of now, and as many rows as the terminal holds.

Nothing is drawn while nothing has changed, and nothing is cleared: what other parts print goes above the screen, and
the last state stays when the watching ends. Only a real terminal has such a screen; everybody else gets lines.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self

from offsite.cli.output import Table
from offsite.model.names import amount
from offsite.model.untrusted.text import printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

DRAWN_EVERY_S = 1.0
_AROUND_ROWS = 3
"""Lines around the rows: the head of the table, how many rows are left out, and the cursor."""
_NOT_A_SCREEN = frozenset({"", "dumb", "unknown"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What a screen shows. `table`: its most important rows first; shown are the first that fit, in the order of their
    names. `noun`: what a row is."""

    lines: tuple[str, ...]
    table: Table
    noun: str = "topic"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fitted:
    """What is drawn of a frame in a terminal of `width` columns: its lines, the shown rows, and the line below."""

    lines: tuple[str, ...]
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    below: str
    width: int


def can_be_live() -> bool:
    """Whether somebody watches a terminal that can draw: both streams are one, and nothing asks for plain text."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM", "") in _NOT_A_SCREEN:
        return False
    return sys.stdout.isatty() and sys.stderr.isatty()


def calm_console() -> Console:
    """A console on stderr that hides no cursor: a process that is killed, or stopped by Ctrl-Z, would leave its
    terminal without one."""
    from rich.console import Console

    class CalmConsole(Console):
        def show_cursor(self, show: bool = True) -> bool:  # noqa: ARG002  # as rich has it
            return False

    return CalmConsole(stderr=True, highlight=False)


class LiveScreen:
    """In a `with` block, draws `frame()` once a second from a thread of its own, and at the end a last time."""

    def __init__(self, frame: Callable[[], Frame], *, every_s: float = DRAWN_EVERY_S) -> None:
        from rich.live import Live

        self._frame, self._every_s = frame, every_s
        self._console = calm_console()
        self._live = Live(console=self._console, auto_refresh=False)
        self._drawn: _Fitted | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._go_on, name="screen", daemon=True)

    def draw(self) -> None:
        """Draw the frame of now, unless it is drawn already."""
        fitted = _fit(self._frame(), self._console)
        if fitted != self._drawn:
            self._drawn = fitted
            self._live.update(_renderable(fitted), refresh=True)

    def _go_on(self) -> None:
        while not self._over.wait(self._every_s):
            self.draw()

    def __enter__(self) -> Self:
        self._live.start()
        self.draw()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._over.set()
            self._thread.join()
            self.draw()
        finally:  # another Ctrl-C may come meanwhile
            self._live.stop()


def _fit(frame: Frame, console: Console) -> _Fitted:
    from rich.text import Text

    width, height = console.size
    taken = sum(len(Text(printable(line)).wrap(console, width)) for line in frame.lines)
    rows = frame.table.rows[: max(0, height - taken - _AROUND_ROWS)]
    left_out = len(frame.table.rows) - len(rows)
    return _Fitted(
        lines=frame.lines,
        head=frame.table.head if rows else (),
        rows=tuple(sorted(rows)),  # by name: a row stays at its place while its figures change
        below=f"and {amount(left_out, f'more {frame.noun}')}" if left_out else "",
        width=width,
    )


def _renderable(fitted: _Fitted) -> RenderableType:
    from rich.console import Group
    from rich.table import Table as RichTable
    from rich.text import Text

    shown = RichTable(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for number, head in enumerate(fitted.head):
        shown.add_column(Text(printable(head), "bold"), justify="right" if number else "left", no_wrap=True)
    for row in fitted.rows:
        shown.add_row(*(Text(printable(cell)) for cell in row))
    below = [Text(fitted.below)] if fitted.below else []
    return Group(*(Text(printable(line)) for line in fitted.lines), *([shown] if fitted.rows else []), *below)
