"""A checkpoint that goes on when the command that began it has ended: a process of its own, which no terminal ends.

It is the same command with `--wait`. All that it says goes into a file that vanishes with it; what counts is in the
store: that the checkpoint is taken, complete or failed.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import IO

from offsite.model.errors import CheckpointNotTaken
from offsite.model.untrusted.own_python import OWN_PYTHON

_NOTHING: Mapping[str, str] = MappingProxyType({})
_MODULE = "from offsite.cli.main import main; main()"
_TOLD_MAX = 2_000
"""Characters of what a process that ended has said."""


class Background:
    """A process that takes a checkpoint by the command line `arguments`, once it was begun. `environment` is added to
    that of this process."""

    def __init__(self, *, arguments: Sequence[str], environment: Mapping[str, str] = _NOTHING) -> None:
        self._arguments, self._environment = arguments, environment
        self._process: subprocess.Popen[bytes] | None = None
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # as long as either process has it open

    def begin(self) -> None:
        """Begin it in a session of its own, unless it was begun."""
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
        """Return unless it has ended. Raises `CheckpointNotTaken` with what it said: who asks wants to know now."""
        if self._process is not None and self._process.poll() is not None:
            self._said.seek(0)
            said = self._said.read().decode(errors="replace")[-_TOLD_MAX:].strip()
            raise CheckpointNotTaken(
                f"the process that was to take the checkpoint has ended: {said or 'it said nothing'}",
                hint="take it again with --wait, to see what it does",
            )
