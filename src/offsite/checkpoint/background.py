"""Takes a checkpoint beyond the end of its command: in a process of its own, which no terminal ends.

The process runs the same command with `--wait`. Its output goes into a file that vanishes with the process; the store
alone records the result: checkpoint taken, complete or failed.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import IO

from offsite.model.errors import CheckpointNotTaken
from offsite.model.machine import OWN_PYTHON

_NOTHING: Mapping[str, str] = MappingProxyType({})
_MODULE = "from offsite.cli.main import main; main()"
_TOLD_MAX = 2_000
"""Characters shown of the output of a process that ended."""


class Background:
    """A process that takes a checkpoint with the command line `arguments`, once begun. `environment` extends the
    environment of the process."""

    def __init__(self, *, arguments: Sequence[str], environment: Mapping[str, str] = _NOTHING) -> None:
        self._arguments, self._environment = arguments, environment
        self._process: subprocess.Popen[bytes] | None = None
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # as long as either process has it open

    def begin(self) -> None:
        """Begin the process in a session of its own, unless begun before."""
        if self._process is None:
            self._process = subprocess.Popen(
                [*OWN_PYTHON, "-c", _MODULE, *self._arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._said,
                start_new_session=True,
                env={**os.environ, **self._environment},
            )

    def check(self) -> None:
        """Return unless the process has ended. Raises `CheckpointNotTaken` with its output: the requester wants to know
        now."""
        if self._process is not None and self._process.poll() is not None:
            self._said.seek(0)
            said = self._said.read().decode(errors="replace")[-_TOLD_MAX:].strip()
            raise CheckpointNotTaken(
                f"the process for the checkpoint has ended: {said or 'no output'}",
                hint="take it again with --wait to see the cause",
            )
