"""`offsite doctor`: looks for common faults. A coordinator answers the same at `/api/v1/doctor`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from offsite.cli.options import Bootstrap, KafkaConfigFile, OptionalRepo, Output, takes
from offsite.cli.output import Line, OutputFormat, emit, note
from offsite.cli.wiring import SparkOptions
from offsite.model.selection import parse_selection, split_all

if TYPE_CHECKING:
    from offsite.doctor.examine import CheckReport, Examination
    from offsite.doctor.parts import DoctorRequest


_WIDTH = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorOptions:
    """The parts to examine, as typed."""

    repo: OptionalRepo = None
    bootstrap: Bootstrap = None
    kafka_config: KafkaConfigFile = None
    topics: Annotated[
        list[str] | None,
        typer.Option(
            "--topics",
            help="Topics whose permissions are needed, as for a backup [default: all visible topics].",
            callback=split_all,
        ),
    ] = None
    metastore: Annotated[
        Path | None, typer.Option("--metastore", help="Folder of offsite metastore backup on this machine.")
    ] = None
    no_spark: Annotated[
        bool, typer.Option("--no-spark", help="Do not start Spark: skip the checks that need Spark.")
    ] = False


@takes(DoctorOptions, SparkOptions)
def doctor(options: DoctorOptions, engine: SparkOptions, output: Output = OutputFormat.TABLE) -> None:
    """Check for common problems of brokers, stores and this machine.

    Java, Spark, permissions and clocks are checked too. Each check has a verdict and a hint. A part without options is
    skipped. Nothing on the cluster is changed; objects written into the store are deleted again. The exit code is the
    exit code of the first failed check.
    """
    from offsite.doctor.examine import examine

    examination = examine(_request(options, engine), on_report=_tell)
    emit(examination, output=output, render=_render)
    if not examination.ok:
        raise typer.Exit(examination.exit_code)


def _request(options: DoctorOptions, engine: SparkOptions) -> DoctorRequest:
    from offsite.doctor.parts import DoctorRequest

    return DoctorRequest(
        repo=options.repo,
        bootstrap=options.bootstrap,
        kafka_config=options.kafka_config,
        spark=engine.choice(),
        topics=parse_selection(options.topics) if options.topics else None,
        start_spark=not options.no_spark,
        metastore=options.metastore,
    )


def _tell(title: str, report: CheckReport) -> None:
    note(f"{report.verdict:<{_WIDTH}}{title}")


def _render(examination: Examination) -> Iterator[Line]:
    """Show the checks. A cure shared by successive checks is shown once."""
    last_cure = ""
    for check in examination.checks:
        yield f"{check.verdict:<{_WIDTH}}{check.id}: {check.said}"
        if check.cure and check.cure != last_cure:
            yield f"{'':<{_WIDTH}}{check.cure}"
        last_cure = check.cure
    yield "nothing failed" if examination.ok else "fix the failed checks, and run doctor again"
