"""Ends an owned sandbox when its owner ends, however that happens.

A small process of its own has a pipe as standard input that only the owner holds open. The kernel closes the pipe with
the owner, even after SIGKILL; the process then stops the broker and leaves.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

GOODBYE_LIMIT_S = 60  # more than a broker may take to stop, by force included


class Guard:
    """The owner's side: holds the pipe."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "offsite.sandbox.end_with_owner", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the owner, which then lets go of the pipe
        )

    def release(self) -> None:
        """Let go of the pipe and wait: afterwards the broker is stopped and no process is left."""
        self._process.communicate(timeout=GOODBYE_LIMIT_S)
