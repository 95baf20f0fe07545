"""`offsite restore drill`: prove that a backup can be restored, and keep the proof."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from offsite.cli.options import BackupName, Bootstrap, KafkaConfigFile, Output, Repo, WordChoice, takes
from offsite.cli.output import EXIT_PARTIAL, Line, OutputFormat, note
from offsite.cli.telling import NoticeOptions, Telling, telling
from offsite.cli.views.verify import render_lacking
from offsite.cli.wiring import SparkOptions, connect, open_repository, spark
from offsite.model.errors import BadOption, Damaged, OutputNotWritten
from offsite.model.names import amount
from offsite.model.plain import plain
from offsite.model.units import format_duration, format_size
from offsite.restore.options import RestoreWords

if TYPE_CHECKING:
    from offsite.kafka.cluster import Cluster
    from offsite.model.untrusted.json_object import JsonValue
    from offsite.repository.backup import Backup
    from offsite.restore.drill_report import DrillReport

_OWNER = "drill"
SANDBOX_PREFIX = "offsite-drill-"
"""Temporary folders of sandboxes; the next drill deletes folders of killed drills."""


_TAKEN = WordChoice(
    only=("topics", "exclude", "commit", "accept_rollback", "records"),
    help={
        "records": (
            "Where the drill keeps its records and its report, for a read-only repository: a folder or a URL that "
            "Spark workers must reach [default: with the backup]."
        )
    },
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillOptions:
    """Options of the command, as typed: a field per option."""

    repo: Repo
    backup: BackupName
    words: Annotated[RestoreWords, _TAKEN] = field(default_factory=RestoreWords)
    bootstrap: Bootstrap = None
    kafka_config: KafkaConfigFile = None
    sandbox: Annotated[
        bool,
        typer.Option("--sandbox", help="Restore into a temporary Kafka on this machine, even if a cluster is named."),
    ] = False
    report: Annotated[
        Path | None, typer.Option("--report", help="Also write the report (JSON and HTML) into this folder.")
    ] = None


@takes(DrillOptions, SparkOptions, NoticeOptions)
def drill(
    options: DrillOptions, engine: SparkOptions, notices: NoticeOptions, output: Output = OutputFormat.TABLE
) -> None:
    """Restore as a test: compare every record, delete everything again, write a report.

    Restores into separate topics (offsite-drill-…) of the cluster, or into a sandbox when no cluster is named. The
    report stays with the backup. Exit code 13: the backup was not proven; 3: nothing was proven, because the backup has
    no records of these topics, or some records could not be read back. Only one drill of a backup runs at a time: the
    next drill removes the leftovers of a killed drill.
    """
    with telling(notices, command="restore drill", repo=options.repo, backup=options.backup) as news:
        _drill(options, engine, news, output)


def _drill(options: DrillOptions, engine: SparkOptions, news: Telling, output: OutputFormat) -> None:
    from offsite.cli.progress import progress_of_two
    from offsite.model.clock import SystemClock
    from offsite.model.selection import parse_selection
    from offsite.restore.drill import Drill, DrillRequest

    _check_folder(options.report)
    opened = open_repository(options.repo, records=options.words.get("records")).backup(options.backup)
    in_sandbox = options.sandbox or not (options.bootstrap or options.kafka_config)
    request = DrillRequest(
        selection=parse_selection(options.words.get("topics") or ["*"], options.words.get("exclude") or ()),
        commit=options.words.get("commit"),
        in_sandbox=in_sandbox,
        by=who_runs(),
        accept_rollback=bool(options.words.get("accept_rollback")),
        versions=versions_in_use(),
    )
    total_bytes = sum(segment.raw_bytes for segment in opened.readable_state().all_segments())
    with (
        spark(engine.choice(), preload="offsite.restore.write.translate") as runner,
        _cluster(options, in_sandbox=in_sandbox) as cluster,
        progress_of_two("restore", "compare", total_bytes=total_bytes) as (on_progress, on_proof),
    ):
        if not in_sandbox:
            runner.refuse_strangers()
        result = Drill(
            opened,
            request,
            cluster=cluster,
            runner=runner,
            clock=SystemClock(),
            on_report=lambda report: _keep(report, opened, options.report),
        ).run(on_progress=on_progress, on_proof=on_proof)
    records = options.words.get("records")
    news.emit(result, output=output, render=partial(_render, place=f"in {records}" if records else "with the backup"))
    if not result.proven:
        raise typer.Exit(EXIT_PARTIAL if result.proven is None else Damaged.exit_code)


@contextmanager
def _cluster(options: DrillOptions, *, in_sandbox: bool) -> Iterator[Cluster]:
    if not in_sandbox:
        yield connect(options.bootstrap, options.kafka_config)
        return
    from offsite.engine.scratch import Scratch
    from offsite.kafka.cluster import connect_as
    from offsite.sandbox import Sandbox, SandboxSettings, Security

    scratch = Scratch(SANDBOX_PREFIX)
    sandbox = Sandbox(scratch.create() / "kafka")
    password = secrets.token_urlsafe(32)  # it will hold records that other users of this machine must not read
    settings = SandboxSettings(security=Security(users={_OWNER: password}, owner=_OWNER))
    try:
        listeners = sandbox.start(owned=True, settings=settings, progress=note).listeners
        yield connect_as(listeners["SASL_PLAINTEXT"], _OWNER, password)
    finally:
        sandbox.stop()
        scratch.remove()


def _keep(report: DrillReport, backup: Backup, folder: Path | None) -> None:
    """Store the report beside the backup, and in `folder` if given."""
    from offsite.repository.snapshots.check_records import decode_drill_record, put_drill_report
    from offsite.restore.drill_report import drill_page
    from offsite.stores.plain_files import file_mode
    from offsite.upkeep.verification.last_checks import CheckMemory

    document = cast("dict[str, JsonValue]", plain(report))
    files = put_drill_report(backup.record_store, backup.layout, report.drill, document, drill_page(report))
    record = decode_drill_record(files["json"], backup.layout.drill_key(report.drill, "json"))
    CheckMemory(backup=backup).note_drill(record)
    if folder is None:
        return
    try:
        for suffix, data in files.items():
            path = folder / f"{report.drill}.{suffix}"
            path.touch(mode=file_mode(folder))
            path.write_bytes(data)
    except OSError as error:
        raise OutputNotWritten(
            f"the report cannot be written into {folder}: {error.strerror}",
            hint=f"it is stored with the backup: drills/{report.drill}/report.html",
        ) from error


def _check_folder(folder: Path | None) -> None:
    """Raise `BadOption` for an unwritable folder, before the work is done."""
    if folder is None:
        return
    from offsite.stores.plain_files import make_private_root

    try:
        make_private_root(folder)
    except OSError as error:
        raise BadOption(f"--report {folder} is not a writable folder: {error}", hint="name another folder") from error


def versions_in_use() -> dict[str, str]:
    import platform
    from importlib.metadata import version

    return {"Python": platform.python_version(), "offsite": version("offsite"), "pyspark": version("pyspark")}


def who_runs() -> str:
    import getpass
    import socket

    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (OSError, KeyError):  # a container's user without a name
        return f"unknown@{socket.gethostname()}"


def _render(report: DrillReport, *, place: str) -> Iterator[Line]:
    verdict = {True: "PROVEN", False: "NOT PROVEN", None: "NOTHING PROVEN"}[report.proven]
    yield (
        f"drill {report.drill} of backup {report.backup}, commit {report.commit}: {verdict} "
        f"({amount(report.records, 'record')}, {format_size(report.bytes)}; restored in "
        f"{format_duration(report.restore_s)}, read back in {format_duration(report.compare_s)})"
    )
    for topic in report.topics:
        offsets = "offsets kept" if topic.same_offsets else "gap-free"
        content = f"{amount(topic.records, 'record')} in {amount(topic.partitions, 'partition')}"
        yield f"  {topic.source}: {content}, {offsets}"
    for warning in report.warnings:
        yield f"  warning: {warning}"
    if report.problem:
        yield f"  {report.problem}"
    for finding in report.findings:
        yield f"  DIFFERENT: {finding}"
    if report.lacking:
        yield "  the backup itself lacks:"
        yield from render_lacking(report.lacking)
    for name in report.leftovers:
        yield f"  removed a leftover of a killed drill: {name}"
    yield f"the report is stored {place}: backups/{report.backup}/drills/{report.drill}/report.html"
