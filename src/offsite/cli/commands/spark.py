"""`offsite spark`: prepares a Spark cluster for this offsite."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from offsite.cli.options import Output
from offsite.cli.output import Line, OutputFormat, emit
from offsite.model.errors import BadOption
from offsite.model.units import format_size

if TYPE_CHECKING:
    from offsite.engine.executor_archive import PackedArchive


app = typer.Typer(help="Bring offsite to the executors of a Spark cluster.", no_args_is_help=True)

OutputFile = Annotated[Path, typer.Option("--output-file", help="The archive to write; an existing file is replaced.")]
With = Annotated[
    list[str] | None,
    typer.Option("--with", help="Another distribution of this environment that executors need, such as botocore."),
]
NoCompress = Annotated[
    bool, typer.Option("--no-compress", help="Do not compress: three times as large, made in a fifth of the time.")
]


@app.command()
def pack(
    output_file: OutputFile = Path("offsite.pex"),
    with_: With = None,
    no_compress: NoCompress = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Make one archive of offsite and its dependencies, for executors without offsite.

    Pass the archive to a command with --spark-archive. Executors need the same minor version of Python and the same
    kind of machine, nothing else: Spark brings pyspark. Takes half a minute, needs no network, and changes only the
    archive.
    """
    from offsite.engine.executor_archive import pack as pack_archive

    archive = pack_archive(output_file, extra=with_ or (), compress=not no_compress)
    emit(archive, output=output, render=_render)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenJob:
    path: str


@app.command()
def job(
    output_file: Annotated[
        Path,
        typer.Option("--output-file", help="The script to write; an existing file is replaced. Its name ends in .py."),
    ] = Path("offsite-job.py"),
    output: Output = OutputFormat.TABLE,
) -> None:
    """Write a script that runs offsite through spark-submit, if only spark-submit may start Spark, or the driver must
    run on the cluster.

    The words after the script's name are a command of offsite: spark-submit offsite-job.py backup run. Settings are the
    settings of spark-submit.
    """
    from offsite.cli.job import SCRIPT

    if output_file.suffix != ".py":
        raise BadOption(
            f"spark-submit does not accept a script named {output_file.name}", hint="use a name that ends in .py"
        )
    try:
        output_file.write_text(SCRIPT, encoding="utf-8")
    except OSError as error:
        raise BadOption(f"{output_file} cannot be written: {error.strerror}", hint="name another file") from error
    emit(WrittenJob(path=str(output_file)), output=output, render=_render_job)


def _render_job(written_job: WrittenJob) -> Iterator[Line]:
    yield f"next: spark-submit --files offsite.pex {written_job.path} backup run"


def _render(archive: PackedArchive) -> Iterator[Line]:
    yield f"{archive.path}: {format_size(archive.file_bytes)}, sha256 {archive.sha256}"
    yield f"offsite {archive.offsite} for Python {archive.python} on {archive.platform}"
    yield f"next: pass it to a command with --spark-archive {archive.path}"
