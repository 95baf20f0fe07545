"""`offsite status --config`: the status of several repositories, as the start page of a coordinator shows it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from offsite.cli.output import Line, Table
from offsite.model.units import format_time
from offsite.overview.several import (
    RepositoryRow,
    SeveralStatus,
    describe_age,
    status_of_several,
    verdict_of_several,
)
from offsite.overview.verdict import restoring_command

if TYPE_CHECKING:
    from offsite.serve.repository_watch import RepositoryWatch

READ_WITHIN_S = 60.0
"""What has no answer by then is told, and not waited for."""


def read_several(config: Path) -> SeveralStatus:
    """Read all repositories of the file at the same time, each beside its source. Raises `BadOption`."""
    from offsite.engine.settings import SparkChoice
    from offsite.model.clock import SystemClock
    from offsite.serve.config_file import read_config
    from offsite.serve.repository_watch import RepositoryWatch
    from offsite.serve.site import Site

    settings = read_config(config, spark=SparkChoice()).values()
    watches = [RepositoryWatch(Site(of_repository), SystemClock()) for of_repository in settings]
    threads = [threading.Thread(target=_look, args=(watch,), daemon=True) for watch in watches]
    for thread in threads:
        thread.start()
    until_s = time.monotonic() + READ_WITHIN_S
    for thread in threads:
        thread.join(max(0.0, until_s - time.monotonic()))
    return status_of_several(watch.reading() for watch in watches)


def _look(watch: RepositoryWatch) -> None:
    watch.look()
    if watch.site.watch is not None:
        watch.site.watch.look()


def troubles_of(status: SeveralStatus) -> Iterator[str]:
    """What is not as it should be, the worst first."""
    for row in status.repositories:
        yield from (f"{row.repository}: {line}" for line in _troubles(row))


def render_several(status: SeveralStatus) -> Iterator[Line]:
    verdict = verdict_of_several(status)
    yield f"{verdict.word}  {verdict.sentence}"
    table = Table("repository", "verdict", "restorable to", "read")
    for row in status.repositories:
        restorable = format_time(row.restorable_to_ms) if row.restorable_to_ms else "-"
        table.add_row(row.repository, row.verdict, restorable, describe_age(row))
    yield table
    for row in status.repositories:
        yield from (f"{row.repository}: {line}" for line in _troubles(row))
        for loss in row.losses:
            if loss.restore:
                yield f"  restore: {restoring_command(loss.backup, {'repo': row.place, **loss.restore})}"


def _troubles(row: RepositoryRow) -> Iterator[str]:
    if row.problem:
        yield f"not read: {row.problem}"
    if not row.safe and row.age_s is not None:
        yield row.sentence
    for loss in row.losses:
        yield f"lost at the source: {loss.topic} of {loss.backup} ({loss.state}): {loss.detail}"
    if row.losses_more:
        yield f"and {row.losses_more:,} more topics lost at the source"
    yield from row.problems
    if row.problems_more:
        yield f"and {row.problems_more:,} more problems"
    for problem in row.source_problems:
        yield f"source: not compared: {problem}"
