"""`offsite demo`: watch real Kafka data go to a repository and come back."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from offsite.cli.options.common import Output
from offsite.cli.options.option_group import takes
from offsite.cli.options.spark import SparkOptions
from offsite.cli.output import OutputFormat, emit, note
from offsite.cli.wiring import spark
from offsite.model.errors import BadOption
from offsite.model.units import format_duration, format_size

if TYPE_CHECKING:
    from rich.console import Console

    from offsite.demo.story import DemoResult

EXIT_DIFFERENT = 1


@takes(SparkOptions)
def demo(
    engine: SparkOptions,
    directory: Annotated[
        Path | None,
        typer.Option("--dir", help="Keep the broker's data and the repository here [default: a temporary folder]."),
    ] = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Start a real Kafka, write difficult data, back it up, delete it, restore it, and compare record by record."""
    if find_spec("confluent_kafka") is None:
        raise BadOption(
            "the demo compares with confluent-kafka, which is not installed", hint="pip install 'offsite[demo]'"
        )
    with _folder(directory) as folder:
        result = _play(folder, engine)
    emit(result, output=output, render=_render)
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


def _render(console: Console, result: DemoResult) -> None:
    from rich.table import Table

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
    console.print(table)
    for topic in result.topics:
        if topic.difference:
            console.print(f"{topic.topic}: {topic.difference}")
    console.print(
        f"{result.records:,} records were restored; key, value, headers, timestamp and order were compared "
        f"({format_size(result.bytes)} of log, stored as {format_size(result.stored_bytes)})",
        f"the consumer group continues at offsets {', '.join(map(str, result.group_offsets.values()))} of the orders",
        "now with your own cluster:",
        "  offsite init ./backups",
        "  offsite backup run --repo ./backups --bootstrap HOST:9092 --backup first --topics '*'",
        "  offsite status --repo ./backups",
        sep="\n",
    )
