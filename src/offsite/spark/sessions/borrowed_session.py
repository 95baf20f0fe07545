"""Somebody else's SparkContext."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from offsite.model.errors import BadOption
from offsite.spark.sessions.master import runs_in_one_jvm, task_attempts
from offsite.spark.sessions.session import Session

if TYPE_CHECKING:
    from pyspark import SparkContext


class BorrowedSession(Session):
    """Somebody else's SparkContext: used, and left as it was."""

    def __init__(self, context: SparkContext) -> None:
        self._lent, self._python = context, context.pythonExec
        super().__init__()

    def _build(self) -> SparkContext:
        if self._lent.getConf().get("spark.speculation", "false") == "true":
            raise BadOption(
                "the Spark session has spark.speculation on: two attempts at one partition would shut each other out",
                hint="start it with spark.speculation=false",
            )
        if runs_in_one_jvm(str(self._lent.master)) and "PYSPARK_PYTHON" not in os.environ:
            self._lent.pythonExec = sys.executable  # pyspark would take any python3 of the PATH, without offsite
        self.max_attempts = task_attempts(str(self._lent.master), self._lent.getConf().get("spark.task.maxFailures"))
        return self._lent

    def _stop(self, *, surely: bool) -> None:  # noqa: ARG002  # its workers are not ours
        self._lent.pythonExec = self._python
