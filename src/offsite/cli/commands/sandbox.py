"""`offsite sandbox`: a real Kafka on this machine, a broker or several, to try things out. `offsite demo`: watch its
data go to a repository and come back.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from offsite.cli.options import Output, takes
from offsite.cli.output import Line, OutputFormat, Table, emit, note
from offsite.cli.wiring import SparkOptions, spark
from offsite.model.errors import BadOption
from offsite.model.names import amount
from offsite.model.units import format_duration, format_size

if TYPE_CHECKING:
    from offsite.demo.story import DemoResult
    from offsite.sandbox import SandboxInfo


app = typer.Typer(help="Start and stop a real Kafka on this machine.", no_args_is_help=True)

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
    typer.Option(
        "--kafka-version",
        help="2.7.2, 2.8.2, 3.9.1, 4.1.1, 4.2.0, 4.2.2, 4.3.1 or 4.4.0 [default: as before, or 4.1.1].",
    ),
]

EXIT_DIFFERENT = 1


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


def _render(report: SandboxReport) -> Iterator[Line]:
    if not report.running:
        yield f"sandbox in {report.dir}: not running"
        return
    from offsite.sandbox.versions import KAFKA_VERSION

    kafka = "Kafka" if report.kafka_version == KAFKA_VERSION else f"Kafka {report.kafka_version}"
    pids = ", ".join(f"{name} {pid}" for name, pid in report.pids.items())
    processes = f"pid {report.pid}" if len(report.pids) == 1 else f"pids: {pids}"
    yield f"sandbox in {report.dir}: {kafka} on {report.bootstrap} ({processes})"
    yield f"next: export OFFSITE_BOOTSTRAP={report.bootstrap}"


@takes(SparkOptions)
def demo(
    engine: SparkOptions,
    directory: Annotated[
        Path | None,
        typer.Option("--dir", help="Keep the broker's data and the repository here [default: a temporary folder]."),
    ] = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Watch a backup and a restore on a real Kafka.

    The command starts the Kafka, writes difficult data, backs it up, deletes it, restores it, and compares record by
    record.
    """
    if find_spec("confluent_kafka") is None:
        raise BadOption(
            "the demo compares with confluent-kafka, which is not installed", hint="pip install 'offsite[demo]'"
        )
    with _folder(directory) as folder:
        result = _play(folder, engine)
    emit(result, output=output, render=_render_demo)
    if not (result.identical and result.verified):
        raise typer.Exit(EXIT_DIFFERENT)


def _play(folder: Path, engine: SparkOptions) -> DemoResult:
    from offsite.demo.story import Demo
    from offsite.model.clock import SystemClock
    from offsite.sandbox import Sandbox

    sandbox = Sandbox(folder / "kafka")
    with spark(engine.choice(), preload="offsite.backup.copy") as runner:
        try:
            info = sandbox.start(owned=True, progress=note)
            note(f"a real Kafka is running on {info.bootstrap}")
            story = Demo(
                bootstrap=info.bootstrap,
                repository=folder / "repository",
                runner=runner,
                clock=SystemClock(),
                on_step=lambda done, took_s: note(f"  {done} ({format_duration(took_s)})"),
            )
            return story.run()
        finally:
            sandbox.stop()


@contextmanager
def _folder(directory: Path | None) -> Iterator[Path]:
    if directory is not None:
        if directory.exists() and any(directory.iterdir()):
            raise BadOption(f"{directory} is not empty", hint="give --dir a new folder")
        yield directory
        return
    with tempfile.TemporaryDirectory(prefix="offsite-demo-") as name:
        yield Path(name)


def _render_demo(result: DemoResult) -> Iterator[Line]:
    table = Table("topic", "holds", "partitions", "before", "restored", "compared")
    for topic in result.topics:
        offsets = ", same offsets" if topic.same_offsets else ""
        verdict = f"identical{offsets}" if topic.identical else "DIFFERENT"
        table.add_row(
            topic.topic,
            topic.holds,
            str(topic.partitions),
            f"{topic.source_records:,}",
            f"{topic.restored_records:,}",
            verdict,
        )
    yield table
    for topic in result.topics:
        if topic.difference:
            yield f"{topic.topic}: {topic.difference}"
    yield (
        f"{amount(result.records, 'record was', 'records were')} restored; key, value, headers, timestamp and order "
        f"were compared ({format_size(result.bytes)} of log, stored as {format_size(result.stored_bytes)})"
    )
    yield f"the consumer group continues at offsets {', '.join(map(str, result.group_offsets.values()))} of the orders"
    yield "now with your own cluster:"
    yield "  offsite init ./backups"
    yield "  offsite backup run --repo ./backups --bootstrap HOST:9092 --backup first --topics '*'"
    yield "  offsite status --repo ./backups"
