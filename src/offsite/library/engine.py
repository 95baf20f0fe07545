"""The Spark of jobs: the program's own, or one started for every job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from offsite.engine.settings import SparkChoice, settings_of
from offsite.model.options import SecretsChoice, SecretsText, parse_choice

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from offsite.engine.rate_limits import RateLimits
    from offsite.engine.spark_runner import SparkRunner


class SparkWords(TypedDict, total=False):
    """The Spark of jobs and its settings: as the options of the same names.

    `spark_master`: a master URL, or `submitted`. `spark_conf` wins over the file `spark_properties`. `spark_archive`:
    made by `offsite spark pack`. `secrets`: `encrypted`, `on-executors` or `in-clear`.
    """

    spark_master: str | None
    spark_conf: Mapping[str, str]
    spark_properties: Path | None
    spark_archive: str | None
    secrets: SecretsText


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """A Spark for jobs. `session`: the program's own, left running; its workers must be able to import offsite. Without
    a session, jobs start the Spark of `choice` and end it."""

    session: SparkSession | None = None
    choice: SparkChoice = field(default_factory=SparkChoice)

    @classmethod
    def of(cls, session: SparkSession | None, words: SparkWords) -> Engine:
        """Make an engine from keywords. Raises `BadOption`."""
        conf = {**settings_of(words.get("spark_properties"), ()), **words.get("spark_conf", {})}
        choice = SparkChoice(
            master=words.get("spark_master"),
            conf=conf,
            archive=words.get("spark_archive"),
            secrets=parse_choice(SecretsChoice, words.get("secrets", SecretsChoice.DEFAULT)),
        )
        return cls(session=session, choice=choice)

    @contextmanager
    def runner(self, limits: RateLimits | None = None) -> Iterator[SparkRunner]:
        """A runner, ended with the block, with tasks that observe `limits`."""
        from offsite.engine.spark_runner import SparkRunner

        context = None if self.session is None else self.session.sparkContext
        runner = SparkRunner(self.choice, context=context, limits=limits)
        runner.begin()
        try:
            yield runner
        finally:
            runner.close()
