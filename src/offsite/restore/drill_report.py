"""The proof of a drill: one document for scripts, and the same as a page for people.

The page is one self-contained HTML file: to be filed, printed, sent to an auditor. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from offsite.model.names import amount
from offsite.model.units import format_duration, format_size
from offsite.reports.axis import Unit
from offsite.reports.bar_plot import Bar, BarPlot, largest
from offsite.reports.html_page import VerdictStyle, document, facts, items, table, text, verdict
from offsite.reports.point_report import ConsistencyReport, HoleReport

_VERDICTS = {True: VerdictStyle.GOOD, False: VerdictStyle.BAD, None: VerdictStyle.WARN}
_HOLES_MAX = 100
"""Holes on the page; the document has all holes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrilledTopic:
    """One topic restored by a drill. `digests` has one entry per partition with data: `partition: blake3:…`, over all
    its records."""

    source: str
    target: str
    partitions: int
    same_offsets: bool
    records: int
    bytes: int
    invisible_records: int
    digests: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillReport:
    """The report of a drill. `proven`: True when everything selected was restored, read back, and equals the backup;
    False otherwise, with the reason in `problem` or `findings`; None when neither proven nor refuted: nothing to
    restore, some data could not be read back, or the drill could not run. `lacking`: data that the backup itself lacks.
    Times are the store's clock; `place`: where the drill restored to. `removed` are the topics removed afterwards,
    `leftovers` the removed topics of killed drills. `warnings`: further facts for a person."""

    drill: str
    backup: str
    repository: str
    by: str
    versions: Mapping[str, str]
    began: str
    place: str
    ended: str = ""
    proven: bool | None = False
    problem: str = ""
    findings: tuple[str, ...] = ()
    commit: int = 0
    committed: str = ""
    restore: str = ""
    cluster_id: str = ""
    isolation: str = ""
    records: int = 0
    bytes: int = 0
    restore_s: float = 0.0
    compare_s: float = 0.0
    topics: tuple[DrilledTopic, ...] = ()
    warnings: tuple[str, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()
    holes: int = 0
    lacking: tuple[HoleReport, ...] = ()
    consistency: ConsistencyReport | None = None
    removed: tuple[str, ...] = ()
    leftovers: tuple[str, ...] = ()


def drill_page(report: DrillReport) -> str:
    """The report as one HTML page."""
    title = f"Restore drill of backup {report.backup}"
    parts = [
        f"<h1>{text(title)}</h1>",
        _verdict(report),
        _facts(report),
        *_list("What was different", report.findings),
        *_list("Notes", report.warnings),
        *_topics(report.topics),
        *_plots(report),
        *_list("Missing in the backup itself", tuple(_lacking(report))),
        *_list("Left out", [f"{topic}: {reason}" for topic, reason in report.skipped]),
        *_list("Removed afterwards", report.removed),
        *_list("Removed from interrupted earlier drills", report.leftovers),
        *_digests(report.topics),
    ]
    return document(title, parts)


def _verdict(report: DrillReport) -> str:
    if report.proven:
        lacks = " The backup itself does not have the ranges listed below." if report.lacking else ""
        records = amount(report.records, "record was", "records were")
        said = f"Proven: {records} restored and read back, equal to the backup.{lacks}"
    elif report.proven is None:
        said = f"Nothing proven: {report.problem or 'there was nothing to compare.'}"
    else:
        said = f"Not proven: {report.problem or 'the restored records differ from the backup.'}"
    return verdict(said, _VERDICTS[report.proven])


def _lacking(report: DrillReport) -> Iterable[str]:
    for hole in report.lacking[:_HOLES_MAX]:
        yield f"{hole.topic}/{hole.partition} [{hole.start}, {hole.end}) {hole.reason}"
    if len(report.lacking) > _HOLES_MAX:
        yield f"and {len(report.lacking) - _HOLES_MAX:,} more: all are in report.json"


def _facts(report: DrillReport) -> str:
    named = {
        "Restore point": f"commit {report.commit}, made {report.committed}",
        "Repository": report.repository,
        "Restored to": f"{report.place} (cluster {report.cluster_id})",
        "Began, ended": f"{report.began}, {report.ended} (the repository's clock)",
        "Took": f"{format_duration(report.restore_s)} to restore, {format_duration(report.compare_s)} to read back",
        "Amount": f"{amount(report.records, 'record')}, {format_size(report.bytes)} of log",
        "Consistency": _consistency(report.consistency),
        "Seen as": f"a {report.isolation} consumer at the restore point",
        "Holes": f"{amount(report.holes, 'range')} that the source had lost before the backup",
        "Run by": report.by,
        "With": ", ".join(f"{name} {version}" for name, version in report.versions.items()),
        "Drill, restore": f"{report.drill}, {report.restore or '-'}",
    }
    return facts(named)


def _consistency(report: ConsistencyReport | None) -> str:
    """The consistency of the topics with one another: never more than the weakest topic's."""
    if report is None:
        return "-"
    if report.why:
        return f"as copied, {report.weakest}: {report.why}"
    newer = f"; {report.newer}" if report.newer is not None else ""
    return f"consistent cut, {report.weakest}; transactions left out: {report.left_out_count:,}{newer}"


def _topics(topics: Sequence[DrilledTopic]) -> Iterable[str]:
    if not topics:
        return
    yield "<h2>Topics</h2>"
    rows = [
        [
            text(topic.source),
            text("the source's" if topic.same_offsets else "gap-free"),
            f"{topic.partitions:,}",
            f"{topic.records:,}",
            f"{topic.invisible_records:,}",
            format_size(topic.bytes),
        ]
        for topic in topics
    ]
    yield table(["Topic", "Offsets", "Partitions", "Records", "Aborted or undecided", "Size"], rows, numbers_from=2)


def _plots(report: DrillReport) -> Iterable[str]:
    """How much was restored by topic, and how fast; nothing where nothing was restored."""
    if not report.records:
        return
    steps = [
        (name, took_s)
        for name, took_s in (("Restored", report.restore_s), ("Read back", report.compare_s))
        if took_s > 0
    ]
    plots = (
        BarPlot(
            title="Restored bytes by topic",
            unit=Unit.BYTES,
            of="Topic",
            bars=largest(Bar(name=topic.source, value=topic.bytes) for topic in report.topics),
        ),
        BarPlot(
            title="Throughput of the drill, in bytes of the log",
            unit=Unit.BYTES_PER_S,
            of="Step",
            bars=tuple(Bar(name=name, value=report.bytes / took_s) for name, took_s in steps),
        ),
        BarPlot(
            title="Throughput of the drill, in records",
            unit=Unit.RECORDS_PER_S,
            of="Step",
            bars=tuple(Bar(name=name, value=report.records / took_s) for name, took_s in steps),
        ),
    )
    yield '<div class="plots">' + "".join(plot.html() for plot in plots) + "</div>"


def _digests(topics: Sequence[DrilledTopic]) -> Iterable[str]:
    rows = [[text(topic.source), f"<code>{text(digest)}</code>"] for topic in topics for digest in topic.digests]
    if rows:
        yield "<h2>Digests</h2>"
        yield "<p>Over key, value, headers and time of every record, in order, for each partition.</p>"
        yield table(["Topic", "Partition and digest"], rows)


def _list(title: str, said: Sequence[str]) -> Iterable[str]:
    if said:
        yield f"<h2>{text(title)}</h2>"
        yield items(said)
