"""`offsite sandbox`: a real Kafka broker on this machine, to try things out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from offsite.cli.options import Output
from offsite.cli.output import OutputFormat, emit, note

if TYPE_CHECKING:
    from rich.console import Console

app = typer.Typer(help="Start and stop a real single-node Kafka on this machine.", no_args_is_help=True)

Dir = Annotated[Path, typer.Option("--dir", help="Folder of the sandbox: its data, settings and log.")]
Port = Annotated[
    int | None, typer.Option("--port", help="Port to listen on [default: the earlier one, or any free one].")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxReport:
    """`bootstrap` is empty and `pid` 0 when the sandbox does not run."""

    bootstrap: str
    dir: str
    pid: int
    running: bool


@app.command()
def start(directory: Dir, port: Port = None, output: Output = OutputFormat.TABLE) -> None:
    """Start the sandbox, or find it running; its data from earlier starts is kept."""
    from offsite.sandbox import Sandbox, Settings

    info = Sandbox(directory).start(port=port, settings=Settings(long_run=True), progress=note)
    emit(
        SandboxReport(bootstrap=info.bootstrap, dir=str(info.dir), pid=info.pid, running=True),
        output=output,
        render=_render,
    )


@app.command()
def stop(directory: Dir, output: Output = OutputFormat.TABLE) -> None:
    """Stop the sandbox cleanly. Stopping one that does not run is no error."""
    from offsite.sandbox import Sandbox

    Sandbox(directory).stop()
    emit(_stopped(directory), output=output, render=_render)


@app.command()
def status(directory: Dir, output: Output = OutputFormat.TABLE) -> None:
    """Say whether the sandbox runs, and where."""
    from offsite.sandbox import Sandbox

    info = Sandbox(directory).status()
    report = (
        SandboxReport(bootstrap=info.bootstrap, dir=str(info.dir), pid=info.pid, running=True)
        if info
        else _stopped(directory)
    )
    emit(report, output=output, render=_render)


def _stopped(directory: Path) -> SandboxReport:
    return SandboxReport(bootstrap="", dir=str(directory.absolute()), pid=0, running=False)


def _render(console: Console, report: SandboxReport) -> None:
    if not report.running:
        console.print(f"sandbox in {report.dir}: not running")
        return
    console.print(f"sandbox in {report.dir}: Kafka on {report.bootstrap} (pid {report.pid})")
    console.print(f"next: export OFFSITE_BOOTSTRAP={report.bootstrap}")
