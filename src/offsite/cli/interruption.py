"""SIGINT (Ctrl-C), SIGTERM and SIGHUP: all three end a command like Ctrl-C, with the whole clean-up.

During the command a signal becomes `KeyboardInterrupt`; before and after, a signal ends the process at once, since
nothing needs a clean-up. A signal ignored at the start of the process (nohup, a background job of a shell) stays
ignored. During the clean-up, only another Ctrl-C interrupts. Imports nothing slow.

Inside an import or a finaliser, Python would lose an exception, and the signal too: the exception is then raised a
moment later.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from offsite.model.uninterrupted import interrupt

EXIT_INTERRUPTED = 130
"""Exit code after Ctrl-C. In general the code is 128 plus the number of the signal, as in shells."""

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

RAISED_AGAIN_S = 0.01

_Handler = Callable[[int, FrameType | None], None]


class Interruption:
    """The signal that ended the process, if any."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self._tell_lost = sys.unraisablehook
        self._handled = [signum for signum in _ENDING if signal.getsignal(signum) is not signal.SIG_IGN]

    @property
    def exit_code(self) -> int:
        return 128 + (self.signal or 0)

    def end_at_once(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        self._handle(lambda number, _: os._exit(128 + number))

    def ignore(self) -> None:
        """Ignore all signals from here on: the final message must be written."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        for signum in self._handled:
            signal.signal(signum, signal.SIG_IGN)

    def raise_in_command(self) -> None:
        signal.signal(signal.SIGALRM, self._raise)
        sys.unraisablehook = self._catch_lost
        self._handle(self._interrupt)

    def tell(self) -> None:
        """Print on stderr which signal ended the command, except for Ctrl-C: the person at the keyboard knows."""
        if self.signal not in {None, signal.SIGINT}:
            with suppress(OSError, ValueError):  # the terminal may be gone
                print(f"interrupted by {self.signal.name}", file=sys.stderr, flush=True)  # noqa: T201

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None and number != signal.SIGINT:
            return
        self.signal = self.signal or signal.Signals(number)
        self._raise(number, frame)

    def _raise(self, _: int, frame: FrameType | None) -> None:
        if _is_amid_import(frame):
            self._raise_later()
        else:
            interrupt()

    def _catch_lost(self, lost: sys.UnraisableHookArgs) -> None:
        if issubclass(lost.exc_type, KeyboardInterrupt):
            self._raise_later()
        else:
            self._tell_lost(lost)

    def _raise_later(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, RAISED_AGAIN_S)

    def _handle(self, handler: _Handler) -> None:
        for signum in self._handled:
            signal.signal(signum, handler)


def _is_amid_import(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
