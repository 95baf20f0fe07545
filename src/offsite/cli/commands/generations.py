"""`offsite generations`: two instances that back up compacted topics in turn, always from the beginning."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from offsite.backup.options import BackupWords, parse_limits
from offsite.cli.options import (
    COLLECT_AFTER,
    GIVE_UP_AFTER,
    Bootstrap,
    KafkaConfigFile,
    Output,
    Repo,
    WordChoice,
    Yes,
    checked_places,
    takes,
)
from offsite.cli.output import Line, OutputFormat, Table, confirm, emit, note
from offsite.cli.telling import NoticeOptions, tell_round, telling
from offsite.cli.views.backup import OutageLines
from offsite.cli.wiring import SparkOptions, connect, open_repository, spark
from offsite.model.names import amount
from offsite.model.units import format_size, format_time, parse_duration_s
from offsite.repository.generation_sets.entry import Instance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offsite.backup.outages import Outage
    from offsite.follow.follower import Round
    from offsite.generations.decision import CompletedEffect
    from offsite.generations.removals import GenerationRemoval
    from offsite.generations.request import GenerationsRequest
    from offsite.generations.status import GenerationReport, ReportLine, SetReport
    from offsite.notify.changes import FollowChanges


Name = Annotated[str | None, typer.Option("--name", help="Name of the set: generation 3 is backup NAME.gen-3.")]
InstanceName = Annotated[
    Instance | None, typer.Option("--instance", help="Name of this instance, one of two: run both, each once.")
]
Length = Annotated[
    str | None,
    typer.Option("--length", help="How long a generation stays active [default: 7d]: 7d, 12h."),
]
First = Annotated[
    bool | None,
    typer.Option(
        "--first/--second",
        help="Whether this instance begins as the active one if no generation exists [default: instance a].",
    ),
]
Properties = Annotated[
    Path | None,
    typer.Option(
        "--properties", help="A connector's properties: name, topics, compacted.log.backup.length.days and the like."
    ),
]
Archive = Annotated[
    str,
    typer.Option(
        "--archive", help="Write Avro archives below this folder or URL, instead of backups.", callback=checked_places
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationOptions:
    """Options of both instances of a set, with the choice of the instance, as typed."""

    repo: Repo
    name: Name = None
    instance: InstanceName = None
    length: Length = None
    first: First = None
    archive: Archive = ""
    properties: Properties = None
    words: Annotated[BackupWords, WordChoice(but=("missing_topics", "group_history"))] = field(
        default_factory=BackupWords
    )
    bootstrap: Bootstrap = None
    kafka_config: KafkaConfigFile = None


def render_happened(line: ReportLine) -> Iterator[Line]:
    yield f"{line.set}: {line.text}"


def render_sets(sets: Sequence[SetReport]) -> Iterator[Line]:
    if not sets:
        yield "no generations; begin with: offsite generations run"
    for generation_set in sets:
        yield from _render_set(generation_set)


def render_release(generation_set: SetReport) -> Iterator[Line]:
    yield "released: its instance deletes it when the next generation has replaced it; on another machine in 3 days"
    yield from _render_set(generation_set)


def _render_set(generation_set: SetReport) -> Iterator[Line]:
    yield f"{generation_set.name}: topics {', '.join(generation_set.topics)} of cluster {generation_set.cluster_id}"
    table = Table("generation", "instance", "phase", "began", "complete", "place")
    for generation in generation_set.generations:
        table.add_row(
            str(generation.number), generation.instance, _phase(generation), *_times(generation), generation.place
        )
    yield table
    for generation in generation_set.generations:
        if generation.is_released:
            release_text = f"{format_time(generation.released_ms)}, in the name of {generation.released_by or 'nobody'}"
            yield f"  generation {generation.number} was released: {release_text}"
        if generation.kept:
            yield f"  generation {generation.number} is kept: {generation.kept}"
            yield (
                "    look at the source; if this is intended: "
                f"offsite generations release --name {generation_set.name} --generation {generation.number}"
            )
    for instance, process in generation_set.processes:
        yield f"  instance {instance}: last run by {process}"
    if generation_set.asked_ms:
        yield (
            f"  the next generation was requested at {format_time(generation_set.asked_ms)}: does the other instance "
            "run?"
        )
    yield f"  {amount(generation_set.removed, 'earlier generation is', 'earlier generations are')} removed"
    for removal in generation_set.removals:
        yield f"    {_removal(removal)}"
    if not generation_set.restore_from:
        yield "  nothing to restore from yet: no generation is complete"
    elif generation_set.is_archive:
        yield f"next: offsite import {generation_set.restore_from} --format avro --backup {generation_set.name}-import"
    else:
        yield f"next: offsite restore plan --backup {generation_set.restore_from}"


def _phase(generation: GenerationReport) -> str:
    active = "active, " if generation.is_active else ""
    return f"{active}{generation.phase}{', released' if generation.is_released else ''}"


def _removal(entry: GenerationRemoval) -> str:
    if entry.problem:
        return f"{entry.generation} cannot be read: {entry.problem}"
    return f"{format_time(entry.at_ms)} {entry.generation} ({format_size(entry.bytes)}): {entry.why}; by {entry.who}"


def _times(generation: GenerationReport) -> tuple[str, str]:
    return format_time(generation.began_ms), format_time(
        generation.complete_ms
    ) if generation.complete_ms else "not yet"


app = typer.Typer(help="Back up compacted topics in turn, by two instances.", no_args_is_help=True)

Interval = Annotated[str, typer.Option("--interval", help="Time from one round to the next.")]
GiveUpAfter = Annotated[
    str, typer.Option("--give-up-after", help="How long to wait during an outage before the command fails.")
]
CollectAfter = Annotated[str, typer.Option("--collect-after", help="How long to keep objects that a roll-up replaced.")]


@app.command()
@takes(GenerationOptions, SparkOptions, NoticeOptions)
def run(
    options: GenerationOptions,
    engine: SparkOptions,
    notices: NoticeOptions,
    interval: Interval = "10s",
    give_up_after: GiveUpAfter = GIVE_UP_AFTER,
    collect_after: CollectAfter = COLLECT_AFTER,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Run one of the two instances until SIGINT or SIGTERM.

    The active instance backs up like a following run. When its generation is old enough, the second instance reads the
    topics from the beginning and takes over at the end of the topics; the old generation is removed. Run each instance
    once, on one machine or on two: a second process of an instance replaces the first.
    """
    times = parse_duration_s(give_up_after), parse_duration_s(collect_after)
    request = _request(options, interval)
    with telling(notices, command="generations run", repo=options.repo, backup=request.name) as news:
        _run(request, options, times, engine, news.changes(), output)


def _request(options: GenerationOptions, interval: str) -> GenerationsRequest:
    from offsite.generations.request import GenerationInput, parse_generations

    typed = GenerationInput(
        name=options.name,
        instance=options.instance,
        length=options.length,
        first=options.first,
        interval=interval,
        place=options.archive,
    )
    return parse_generations(typed, options.words, options.properties)


def _run(
    request: GenerationsRequest,
    options: GenerationOptions,
    times: tuple[float, float],
    engine: SparkOptions,
    changes: FollowChanges,
    output: OutputFormat,
) -> None:
    from offsite.backup.outages import Outages
    from offsite.generations.instance import open_instance
    from offsite.generations.target import Workshop
    from offsite.model.clock import SystemClock
    from offsite.monitor.waiting import WaitReporter

    cluster, repository = connect(options.bootstrap, options.kafka_config), open_repository(options.repo)
    clock = SystemClock()
    lines = OutageLines(clock)

    def told_outage(outage: Outage | None) -> None:
        lines(outage)
        changes.outage(outage)

    def told_round(completed: Round) -> None:
        lines.worked()
        tell_round(changes, completed)

    outages = Outages(give_up_after_s=times[0], clock=clock, on_outage=told_outage)
    with ExitStack() as opened:
        preload = "offsite.archives.export.task" if request.place else "offsite.backup.copy"
        runner = opened.enter_context(spark(engine.choice(), preload=preload, limits=parse_limits(options.words)))
        opened.enter_context(WaitReporter(lines.waiting, clock=clock))
        workshop = Workshop(
            repository=repository,
            cluster=cluster,
            runner=runner,
            outages=outages,
            clock=clock,
            collect_after_s=times[1],
            on_round=told_round,
            on_effect=_EventPrinter(output),
        )
        instance = open_instance(request, workshop)
        try:
            instance.run(outages=outages, clock=clock, interval_s=request.interval_s)
        except KeyboardInterrupt:
            note("stopped")


class _EventPrinter:
    """Prints changes for people and scripts, not every round."""

    def __init__(self, output: OutputFormat) -> None:
        self._output = OutputFormat.TABLE if output is OutputFormat.TABLE else OutputFormat.JSONL
        self._last = ""

    def __call__(self, happened: CompletedEffect) -> None:
        from offsite.generations.status import line_of

        line = line_of(happened)
        if line is None or (line.lasts and line.text == self._last):
            return
        self._last = line.text if line.lasts else self._last
        emit(line, output=self._output, render=render_happened)


@app.command()
def status(repo: Repo, name: Name = None, output: Output = OutputFormat.TABLE) -> None:
    """Show the generations of each set, which one is active, and which one to restore from."""
    from offsite.generations.status import report_sets

    emit(report_sets(open_repository(repo, looks=True), name), output=output, render=render_sets)


@app.command()
def release(
    repo: Repo,
    name: Annotated[str, typer.Option("--name", help="Name of the set.")],
    generation: Annotated[int, typer.Option("--generation", min=1, help="Number of the generation.")],
    refuse: Annotated[
        bool, typer.Option("--refuse", help="Never delete it on this machine because of the present release.")
    ] = False,
    yes: Yes = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Allow the deletion of an old generation although only it holds something, such as a topic that was deleted or
    emptied since.

    The generation's instance removes it: an instance on another machine three days after it first saw the release, or
    once the release is also given there. Without a release the generation is kept for ever, and the next generation
    does not replace it, or no further generation begins. Exit code 14: no other generation has replaced the generation
    or will replace it.
    """
    from offsite.generations.status import read_set, refuse_release
    from offsite.generations.status import release as release_generation
    from offsite.repository.lease import ProcessIdentity

    repository = open_repository(repo)
    read_set(repository, name)
    if refuse:
        emit((refuse_release(repository, name, generation),), output=output, render=render_sets)
        return
    if not yes:
        confirm(f"allow the deletion of generation {generation} of {name}, with the data that only it holds?")
    released = release_generation(repository, name, generation, by=ProcessIdentity.current().text)
    emit(released, output=output, render=render_release)
