"""`offsite jobs`: current and past jobs of coordinators. No command here starts a JVM."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from offsite.cli.options import Output, Repo
from offsite.cli.output import Line, OutputFormat, Table, emit
from offsite.cli.wiring import open_repository
from offsite.model.names import amount
from offsite.model.units import format_size, format_time, parse_duration_s

if TYPE_CHECKING:
    from offsite.jobs.end import ForgetResult
    from offsite.jobs.status import JobList, JobReport


app = typer.Typer(help="Show the jobs of coordinators, and cancel them.", no_args_is_help=True)

Job = Annotated[str, typer.Argument(metavar="ID", help="Id of the job.")]
Limit = Annotated[int, typer.Option("--limit", min=1, help="Maximum number, the newest first.")]


@app.command(name="list")
def list_(repo: Repo, limit: Limit = 20, output: Output = OutputFormat.TABLE) -> None:
    """List jobs, newest first."""
    from offsite.jobs.status import read_jobs

    emit(read_jobs(open_repository(repo, looks=True).store, most=limit), output=output, render=_render_list)


@app.command()
def show(job: Job, repo: Repo, output: Output = OutputFormat.TABLE) -> None:
    """Show a job: its progress, or its result.

    The state is starting, running, cancelling, succeeded, partial, failed, cancelled or lost.
    """
    from offsite.jobs.status import read_job

    emit(read_job(open_repository(repo, looks=True).store, job), output=output, render=_render_job)


@app.command()
def cancel(job: Job, repo: Repo, output: Output = OutputFormat.TABLE) -> None:
    """Cancel a job, like Ctrl-C. Finished work is kept."""
    from offsite.jobs.ask import cancel_job
    from offsite.jobs.status import read_job

    store = open_repository(repo).store
    if read_job(store, job).ended_at_ms < 0:  # a lost one may only be silent
        cancel_job(store, job, by="offsite jobs cancel")
    emit(read_job(store, job), output=output, render=_render_job)


@app.command()
def forget(
    repo: Repo,
    older_than: Annotated[str, typer.Option("--older-than", help="Minimum age, such as 30d; at least 24h.")],
    output: Output = OutputFormat.TABLE,
) -> None:
    """Delete the records of old jobs that have ended. Their results are kept: backups, reports of checks and drills."""
    from offsite.jobs.end import forget_jobs

    forgotten = forget_jobs(open_repository(repo).store, older_than_s=parse_duration_s(older_than))
    emit(forgotten, output=output, render=_render_forgotten)


def command_line(report: JobReport) -> str:
    """Return the command of a job, as typed by a person."""
    return shlex.join(["offsite", *report.arguments])


def _render_list(listing: JobList) -> Iterator[Line]:
    if not listing.jobs:
        yield "no job was requested from a coordinator yet"
        return
    table = Table("job", "state", "kind", "backup", "requested", "by")
    for job in listing.jobs:
        requested = job.problem or format_time(job.asked_at_ms)
        state = f"{job.state} (claimed)" if job.claimed else job.state
        table.add_row(job.id, state, job.kind, job.backup, requested, job.asked_by)
    yield table


def _render_forgotten(forgotten: ForgetResult) -> Iterator[Line]:
    yield (
        f"{amount(len(forgotten.jobs), 'job record')} deleted"
        + (f", {amount(forgotten.kept, 'other')} of that age kept" if forgotten.kept else "")
    )


def _render_job(report: JobReport) -> Iterator[Line]:
    yield f"job {report.id}: {report.state}"
    yield f"  {command_line(report)}"
    yield f"  requested at {format_time(report.asked_at_ms)} by {report.asked_by}"
    if report.cancelled_by:
        yield f"  cancel requested by {report.cancelled_by}"
    if (progress := report.progress) is not None and report.ended_at_ms < 0:
        yield (
            f"  {progress.label}: {format_size(progress.moved_bytes)}, {amount(progress.records, 'record')}, "
            f"{progress.tasks_done}/{amount(progress.tasks_total, 'task')}"
        )
    if report.worker:
        yield f"  {report.worker} works on it"
    if report.ended_at_ms >= 0:
        yield f"  ended at {format_time(report.ended_at_ms)} with exit code {report.exit_code}"
    if report.claimed:
        yield f"  {report.claimed}"
    if report.said:
        yield report.said.rstrip()
