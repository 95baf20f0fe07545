"""`offsite metastore`: the commands of ksqlDB, or of any command log with a single partition, as local files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from offsite.cli.options import GIVE_UP_AFTER, Bootstrap, GiveUpAfter, KafkaConfigFile, Output, Yes, takes
from offsite.cli.output import EXIT_PARTIAL, Line, OutputFormat, Table, confirm, emit, emit_notice, first_lines, note
from offsite.cli.views.backup import OutageLines
from offsite.cli.wiring import connect
from offsite.metastore.folder import ENABLED, MetastoreWords, Switch, parse_location, parse_place, parse_topic
from offsite.model.errors import BackupFileDamaged, BadOption, NoSuchTopic
from offsite.model.names import amount
from offsite.model.units import format_size, format_time, parse_duration_s

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offsite.kafka.net.routing import Router
    from offsite.metastore.comparison import MetastoreVerifyReport
    from offsite.metastore.live import LiveBackup
    from offsite.metastore.restore import MetastoreRestoreResult
    from offsite.metastore.restore_plan import MetastoreRestorePlan
    from offsite.metastore.source import CommandSource
    from offsite.metastore.status import MetastoreStatusReport, MetastoreView
    from offsite.monitor.metastore import MetastoreServer


_SHOWN = 20
"""Lines shown about single commands; the JSON output has all."""


def render_backup(view: MetastoreView) -> Iterator[Line]:
    for repair in view.repairs:
        yield f"repaired: {repair}"
    if view.diverged:
        yield f"ANOTHER HISTORY: {view.diverged}; a new file was begun, the old file is kept"
    if view.verdict.is_alarm:
        yield (
            f"ALARM: the topic {view.topic} is {view.verdict.value}: "
            f"{amount(view.missing, 'command is', 'commands are')} only in {view.older or 'the file'}"
        )
    if view.undecided:
        yield f"a transaction is open: {amount(view.undecided, 'offset is', 'offsets are')} not backed up yet"
    new = f", {view.appended:,} of them new" if view.appended else ""
    where = f" in {view.file} ({format_size(view.size_bytes)})" if view.file else ""
    yield f"{view.topic}: {view.verdict.value}, {amount(view.commands, 'command')}{new}{where}"


def render_status(report: MetastoreStatusReport) -> Iterator[Line]:
    if not report.backups:
        yield f"no backup of a metastore in {report.location}"
        return
    table = Table("service or topic", "verdict", "commands", "size", "newest command", "last written", "older files")
    for backup in report.backups:
        table.add_row(
            backup.service or backup.topic,
            "safe" if backup.safe else "NOT SAFE",
            f"{backup.commands:,}",
            format_size(backup.size_bytes),
            format_time(backup.last_command_ms) if backup.last_command_ms >= 0 else "-",
            format_time(backup.written_ms) if backup.written_ms >= 0 else "-",
            str(backup.older),
        )
    yield table
    for backup in report.backups:
        yield from _lines(f"{backup.file.name}: ", backup.problems)
        yield from _lines("warning: ", backup.warnings)
        if backup.unchecked:
            yield (
                f"{backup.file.name}: {amount(backup.unchecked, 'command is', 'commands are')} in no sidecar, "
                "with unchecked bytes"
            )


def render_verification(report: MetastoreVerifyReport) -> Iterator[Line]:
    yield from _lines(
        "DAMAGED: ",
        [f"line {problem.line}: {problem.what}" if problem.line else problem.what for problem in report.problems],
    )
    if report.difference:
        yield f"DIFFERENT: {report.difference}"
    if report.missing:
        yield (
            f"DIFFERENT: {report.against} ends before the file: "
            f"{amount(report.missing, 'command is', 'commands are')} missing"
        )
    if report.more:
        yield (
            f"DIFFERENT: {report.against} has {amount(report.more, 'command that is', 'commands that are')} not in "
            "the file"
        )
    checked = "every byte is as written" if report.described else "each line has a key and a value (no sidecar)"
    if report.unchecked:
        checked += f", except {report.unchecked:,} at the end that are not in the sidecar"
    same = f"; {report.against} has the same commands" if report.against else ""
    if report.ok:
        yield f"{report.file}: {amount(report.commands, 'command')}; {checked}{same}"


def render_restore_plan(plan: MetastoreRestorePlan) -> Iterator[Line]:
    existing_commands = len(plan.existing.records) if plan.existing else 0
    yield f"{plan.topic}: {amount(plan.commands, 'command')} from {plan.file}"
    if plan.is_there_already:
        lacking = ", ".join(f"{name}={value}" for name, value in sorted(plan.lacking.items()))
        yield f"  the topic has exactly these commands already: {f'sets {lacking}' if lacking else 'nothing to do'}"
        return
    if plan.existing is not None:
        yield (
            f"  its present content ({amount(existing_commands, 'command')}) is copied beside the file, then the "
            "topic is deleted"
        )
    settings = ", ".join(f"{name}={value}" for name, value in sorted(plan.configs.items()))
    yield f"  the topic is created with one partition and {settings}"
    placed = plan.placement
    yield (
        f"  each command gets its old offset ({amount(placed.filled, 'empty offset is', 'empty offsets are')} filled)"
        if placed.same_offsets
        else f"  commands get new offsets: {placed.why}"
    )
    if plan.torn_bytes:
        yield f"  left out: {plan.torn_bytes} bytes of an incomplete last line, cut by a crash before it was backed up"
    yield from _lines("  left out: ", [f"command {number}: {why}" for number, why in plan.skipped])
    yield from _lines(
        "  ksqlDB would not read: ",
        [f"command {number}: {why} (--skip-incompatible leaves it out)" for number, why in plan.incompatible],
    )
    yield "  Stop all ksqlDB servers of this service first, and start them afterwards."


def render_restored(result: MetastoreRestoreResult) -> Iterator[Line]:
    if result.copy is not None:
        yield f"the previous content is kept in {result.copy}"
    left_out = f", {result.skipped:,} left out" if result.skipped else ""
    offsets = ", each at its old offset" if result.same_offsets else ""
    yield f"{result.topic}: {amount(result.commands, 'command')}{left_out}{offsets}; read back and compared"
    yield "next: start the ksqlDB servers; they read the topic when they start"


def _lines(begin: str, texts: Sequence[str]) -> Iterator[Line]:
    more = "and {:,} more (all of them with -o json)"
    return (f"{begin}{text}" for text in first_lines(texts, str, most=_SHOWN, more=more))


app = typer.Typer(help="Back up and restore the command topic of ksqlDB.", no_args_is_help=True)

Topic = Annotated[str | None, typer.Option("--topic", help="The command topic. It has one partition.")]
ServiceId = Annotated[str | None, typer.Option("--service-id", help="ksqlDB's ksql.service.id, instead of --topic.")]
Location = Annotated[
    str | None,
    typer.Option(
        "--location",
        help="The folder of the backup files [default: the folder in --properties, else offsite/metastore below "
        "$XDG_STATE_HOME, or ~/.local/state].",
    ),
]
Properties = Annotated[
    Path | None,
    typer.Option("--properties", help="A ksql-server.properties file: brokers, service id, location, on or off."),
]
File = Annotated[Path, typer.Argument(help="A backup file, of offsite or of ksqlDB.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOptions:
    """Options that name a command topic, as typed: a field per option."""

    topic: Topic = None
    service_id: ServiceId = None
    properties: Properties = None
    bootstrap: Bootstrap = None
    kafka_config: KafkaConfigFile = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetastoreBackupOptions(TopicOptions):
    location: Location = None
    ksqldb_names: Annotated[
        bool, typer.Option("--ksqldb-names", help="Name new files as ksqlDB does: backup_TOPIC_MILLISECONDS.")
    ] = False
    follow: Annotated[bool, typer.Option("--follow", help="Continue with the topic until SIGINT or SIGTERM.")] = False
    give_up_after: GiveUpAfter = GIVE_UP_AFTER
    metrics_port: Annotated[
        str | None,
        typer.Option("--metrics-port", help="With --follow: where to show metrics, as 9464 or 0.0.0.0:9464."),
    ] = None


@app.command()
@takes(MetastoreBackupOptions)
def backup(options: MetastoreBackupOptions, output: Output = OutputFormat.TABLE) -> None:
    """Bring the backup file up to the end of the topic; with --follow, write each new command to disk at once.

    The file is compared with the topic before commands are added. Properties without ksql.enable.metastore.backup=true
    (or ksql.metastore.enable.backup=true) switch backups off. Exit code 14: the topic has lost commands of the file;
    the file stays unchanged. Exit code 3: the topic has other commands than the file, and a new file was begun; or a
    transaction is open, and later commands cannot be read yet; or the properties do not say whether backups are wanted.
    """
    from offsite.metastore.live import live_backup, lost_commands_error, warnings_of
    from offsite.model.clock import SystemClock

    place = parse_place(_words(options))
    if options.metrics_port is not None and not options.follow:
        raise BadOption("--metrics-port works only with --follow", hint="add --follow")
    if place.switch is not Switch.ON:
        _tell_off(place.switch, options.properties)
        return
    source = _source(options, place.topic)
    for warning in warnings_of(place):
        note(f"warning: {warning}")
    with live_backup(source, place, clock=SystemClock()) as live:
        if options.follow:
            _follow(options, source, live, output)
            return
        view = live.catch_up()
    emit(view, output=output, render=render_backup)
    if (lost := lost_commands_error(view)) is not None:
        raise lost
    if view.diverged or view.undecided:
        raise typer.Exit(EXIT_PARTIAL)
    if not live.is_there:
        raise NoSuchTopic(f"there is no topic {source.topic}, and no backup of one", hint="check the service id")


@app.command()
def status(location: Location = None, properties: Properties = None, output: Output = OutputFormat.TABLE) -> None:
    """Show a verdict for each backup in a folder. Reads only the files, every byte.

    Exit code 13: a backup is not safe; 3: no backup.
    """
    from offsite.metastore.status import metastore_status

    report = metastore_status(parse_location(location, properties))
    emit(report, output=output, render=render_status)
    if not report.safe:
        raise typer.Exit(BackupFileDamaged.exit_code if report.backups else EXIT_PARTIAL)


@app.command()
@takes(TopicOptions)
def verify(options: TopicOptions, file: File, output: Output = OutputFormat.TABLE) -> None:
    """Check a backup file. With --topic or --service-id, also compare it with the topic. Changes nothing.

    Exit code 13 when the file is damaged, or the topic differs: the first different line is named.
    """
    from offsite.metastore.comparison import verify_file

    names_one = options.topic or options.service_id is not None or options.properties
    source = _source(options, parse_topic(_words(options))) if names_one else None
    report = verify_file(file, source)
    emit(report, output=output, render=render_verification)
    if not report.ok:
        raise typer.Exit(BackupFileDamaged.exit_code)


@app.command()
@takes(TopicOptions)
def restore(
    options: TopicOptions,
    file: File,
    skip_incompatible: Annotated[
        bool,
        typer.Option(
            "--skip-incompatible",
            "--skip-incompatible-commands",
            "-s",
            help="Leave out commands that ksqlDB would not read.",
        ),
    ] = False,
    yes: Yes = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Restore the command topic from a backup file; create it if missing. Stop the ksqlDB servers first.

    The present content of the topic is copied into a file beside the backup before the topic is deleted. Afterwards the
    topic is read back and compared. After a crash, run the same command again: it repeats every step.
    """
    from offsite.kafka.admin import ClusterAdmin
    from offsite.metastore.restore import read_existing, run_restore
    from offsite.metastore.restore_plan import plan_restore, topic_of_file
    from offsite.model.clock import SystemClock

    words = _words(options)
    names_one = words.topic or words.service_id is not None or words.properties
    topic = parse_topic(words) if names_one else topic_of_file(file)
    source, router = _source(options, topic), _router(options)
    admin = ClusterAdmin(router)
    existing, brokers = read_existing(source, admin), len(admin.cluster().brokers)
    plan = plan_restore(source, file, existing=existing, brokers=brokers, skip_incompatible=skip_incompatible)
    if not yes and not plan.changes_nothing:
        emit_notice(plan, render=render_restore_plan)
        action = "correct the settings of" if plan.is_there_already else "replace" if existing else "create"
        confirm(f"{action} {topic}?")
    emit(run_restore(plan, router, clock=SystemClock()), output=output, render=render_restored)


def _tell_off(switch: Switch, properties: Path | None) -> None:
    """Obey a file that switches backups off. A silent file may be meant otherwise: exit code 3."""
    if switch is Switch.OFF:
        note(f"backups are switched off in {properties}: nothing was done")
        return
    note(f"{properties} does not say {ENABLED[0]}=true, so backups are off: nothing was done")
    note(f"add it, or add {ENABLED[1]}=true, which ksqlDB itself ignores")
    raise typer.Exit(EXIT_PARTIAL)


def _follow(options: MetastoreBackupOptions, source: CommandSource, live: LiveBackup, output: OutputFormat) -> None:
    from offsite.backup.outages import Outages
    from offsite.metastore.live import follow_topic
    from offsite.model.clock import SystemClock
    from offsite.monitor.metastore import MetastoreServer
    from offsite.monitor.server import parse_address
    from offsite.monitor.waiting import WaitReporter

    clock, lines, shown = SystemClock(), OutageLines(SystemClock()), _ViewPrinter(output)
    outages = Outages(give_up_after_s=parse_duration_s(options.give_up_after), clock=clock, on_outage=lines)
    with ExitStack() as opened:
        if options.metrics_port is not None:
            listen = parse_address(options.metrics_port)
            shown.server = opened.enter_context(MetastoreServer(source.topic, listen=listen, clock=clock))
            note(f"metrics on http://{shown.server.address}/metrics")
        opened.enter_context(WaitReporter(lines.waiting, clock=clock))
        try:
            follow_topic(live, source, outages=outages, clock=clock, on_look=shown.look)
        except KeyboardInterrupt:
            note(f"stopped: {amount(live.view.appended, 'command was', 'commands were')} added")


class _ViewPrinter:
    """Prints new states for people and scripts, and feeds Prometheus, for a following backup."""

    def __init__(self, output: OutputFormat) -> None:
        self.server: MetastoreServer | None = None
        self._output = OutputFormat.TABLE if output is OutputFormat.TABLE else OutputFormat.JSONL
        self._told: MetastoreView | None = None

    def look(self, view: MetastoreView) -> None:
        if self.server is not None:
            self.server.show(view)
        now = replace(view, seen_ms=0, undecided=0, undecided_since_ms=-1)  # each command has a transaction
        if now != self._told:
            is_known = self._told is not None and self._told.diverged == view.diverged
            self._told = now
            if is_known and self._output is OutputFormat.TABLE:  # it was said when it happened
                view = replace(view, diverged="", repairs=())
            emit(view, output=self._output, render=render_backup)


def _words(options: TopicOptions) -> MetastoreWords:
    return MetastoreWords(
        topic=options.topic,
        service_id=options.service_id,
        location=getattr(options, "location", None),
        properties=options.properties,
        ksqldb_names=getattr(options, "ksqldb_names", False),
    )


def _router(options: TopicOptions) -> Router:
    from offsite.kafka import cluster
    from offsite.kafka.net.routing import shared_router

    if options.kafka_config is None and options.properties is not None:  # most of what is in it is ksqlDB's own
        return shared_router(cluster.connect(options.bootstrap, options.properties).config)
    return shared_router(connect(options.bootstrap, options.kafka_config).config)


def _source(options: TopicOptions, topic: str) -> CommandSource:
    from offsite.metastore.source import CommandSource

    return CommandSource(_router(options), topic)
