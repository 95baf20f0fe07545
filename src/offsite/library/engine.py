"""The Spark that does the work: one that the program has already, or one that is started for each job."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from offsite.spark.rate_server import RateLimits
    from offsite.spark.runner import Runner


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """A Spark for jobs. `session` is the program's own and is left running; its workers must be able to import offsite.
    Without one, jobs start Spark at `master` (None: this machine's cores) and end it."""

    session: SparkSession | None = None
    master: str | None = None

    @property
    def slots(self) -> int:
        """Number of tasks to expect at once."""
        from offsite.spark.master import slots

        return slots(self.master) if self.session is None else self.session.sparkContext.defaultParallelism

    @contextmanager
    def runner(self, limits: RateLimits | None = None) -> Iterator[Runner]:
        """A runner, ended with the block, whose tasks go by `limits`."""
        from offsite.spark.session import SparkRunner

        context = None if self.session is None else self.session.sparkContext
        runner = SparkRunner(master=self.master, context=context, limits=limits)
        runner.begin()
        try:
            yield runner
        finally:
            runner.close()
