"""Somebody else's SparkContext."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from offsite.engine.sessions.master import runs_in_one_jvm, task_attempts
from offsite.engine.sessions.session import ContextSession
from offsite.model.errors import BadOption

if TYPE_CHECKING:
    from pyspark import SparkContext


class BorrowedSession(ContextSession):
    """Somebody else's SparkContext, returned by `lend`: used, and left as found."""

    def __init__(self, lend: Callable[[], SparkContext]) -> None:
        self._lend = lend
        self._lent: SparkContext | None = None
        super().__init__()

    def _build(self) -> SparkContext:
        self._lent = lent = self._lend()
        self._python = lent.pythonExec
        if (lent.getConf().get("spark.speculation") or "").strip().lower() == "true":
            raise BadOption(
                "the Spark session has spark.speculation on: two attempts at one partition would stop each other",
                hint="start the session with spark.speculation=false",
            )
        if runs_in_one_jvm(str(lent.master)) and "PYSPARK_PYTHON" not in os.environ:
            lent.pythonExec = sys.executable  # pyspark would take any python3 of the PATH, without offsite
        self.max_attempts = task_attempts(str(lent.master), lent.getConf().get("spark.task.maxFailures"))
        return lent

    def _stop(self, *, surely: bool) -> None:  # noqa: ARG002  # its workers are not ours
        if self._lent is not None:
            self._lent.pythonExec = self._python
