"""`offsite sandbox`: a real Kafka on this machine, a broker or several, to try things out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from offsite.cli.options.common import Output
from offsite.cli.output import OutputFormat, emit, note

if TYPE_CHECKING:
    from rich.console import Console

    from offsite.sandbox import SandboxInfo

app = typer.Typer(help="Start and stop a real Kafka on this machine, of one broker or several.", no_args_is_help=True)

Dir = Annotated[Path, typer.Option("--dir", help="Folder of the sandbox: its data, settings and log.")]
Port = Annotated[
    int | None, typer.Option("--port", help="Port to listen on [default: the earlier port, or any free port].")
]
Brokers = Annotated[
    int | None,
    typer.Option(
        "--brokers", help="Number of brokers; several keep three replicas of each topic [default: as before, or 1]."
    ),
]
KafkaVersion = Annotated[
    str | None,
    typer.Option("--kafka-version", help="2.7.2, 2.8.2, 3.9.1, 4.1.1 or 4.2.0 [default: as before, or 4.1.1]."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxReport:
    """State of the sandbox. `bootstrap` is empty and `pid` 0 when the sandbox is stopped. `pid`: of the first broker;
    `pids`: all."""

    bootstrap: str
    dir: str
    pid: int
    running: bool
    pids: Mapping[str, int]
    kafka_version: str


@app.command()
def start(
    directory: Dir,
    port: Port = None,
    brokers: Brokers = None,
    kafka_version: KafkaVersion = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Start the sandbox, unless it runs already; data of earlier starts is kept."""
    from offsite.sandbox import Sandbox, SandboxSettings

    settings = SandboxSettings(brokers=brokers, kafka_version=kafka_version, long_run=True)
    emit(_running(Sandbox(directory).start(port=port, settings=settings, progress=note)), output=output, render=_render)


@app.command()
def stop(directory: Dir, output: Output = OutputFormat.TABLE) -> None:
    """Stop the sandbox cleanly. It is no error if the sandbox does not run."""
    from offsite.sandbox import Sandbox

    Sandbox(directory).stop()
    emit(_stopped(directory), output=output, render=_render)


@app.command()
def status(directory: Dir, output: Output = OutputFormat.TABLE) -> None:
    """Say whether the sandbox runs, and where."""
    from offsite.sandbox import Sandbox

    info = Sandbox(directory).status()
    emit(_running(info) if info else _stopped(directory), output=output, render=_render)


def _running(info: SandboxInfo) -> SandboxReport:
    return SandboxReport(
        bootstrap=info.bootstrap,
        dir=str(info.dir),
        pid=info.pid,
        running=True,
        pids=info.pids,
        kafka_version=info.kafka_version,
    )


def _stopped(directory: Path) -> SandboxReport:
    return SandboxReport(bootstrap="", dir=str(directory.absolute()), pid=0, running=False, pids={}, kafka_version="")


def _render(console: Console, report: SandboxReport) -> None:
    if not report.running:
        console.print(f"sandbox in {report.dir}: not running")
        return
    from offsite.sandbox.versions import KAFKA_VERSION

    kafka = "Kafka" if report.kafka_version == KAFKA_VERSION else f"Kafka {report.kafka_version}"
    pids = ", ".join(f"{name} {pid}" for name, pid in report.pids.items())
    processes = f"pid {report.pid}" if len(report.pids) == 1 else f"pids: {pids}"
    console.print(f"sandbox in {report.dir}: {kafka} on {report.bootstrap} ({processes})")
    console.print(f"next: export OFFSITE_BOOTSTRAP={report.bootstrap}")
