"""The proof that a drill has made: one document for scripts, and the same as a page for people.

The page is one HTML file that needs nothing else: to be filed, printed, sent to an auditor. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from offsite.model.size import format_size
from offsite.model.time import format_duration
from offsite.model.untrusted.printable import printable
from offsite.services.cut_report import ConsistencyReport
from offsite.services.hole_report import HoleReport


@dataclass(frozen=True, slots=True, kw_only=True)
class DrilledTopic:
    """One topic that a drill restored. `digests` has one entry for each partition that held anything: `partition:
    blake3:…`, over all its records."""

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
    """The report of a drill. `proven`: True when everything selected was restored, read back, and is what the backup
    holds; False when it is not: `problem` or `findings` say why; None: neither proven nor refuted, because there was
    nothing to restore, or some of it could not be read back. `lacking` is what the backup itself does not have. Times
    are the store's clock; `place` says where it was restored to. `removed` are the topics that were removed afterwards,
    `leftovers` those of killed drills."""

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
    skipped: tuple[tuple[str, str], ...] = ()
    holes: int = 0
    lacking: tuple[HoleReport, ...] = ()
    consistency: ConsistencyReport | None = None
    removed: tuple[str, ...] = ()
    leftovers: tuple[str, ...] = ()


_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1b1f24 }
h1 { font-size: 1.5rem; margin-bottom: 0 }
h2 { font-size: 1.1rem; margin-top: 2rem }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid #d7dbe0; vertical-align: top }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums }
code { font-size: .85em; overflow-wrap: anywhere }
.verdict { font-size: 1.2rem; font-weight: 600; padding: .6rem 1rem; border-left: .4rem solid; margin: 1rem 0 }
.proven { border-color: #1a7f37; background: #eaf7ee }
.failed { border-color: #b3261e; background: #fdecea }
.open { border-color: #9a6700; background: #fff8e5 }
"""


_CLASSES = {True: "proven", False: "failed", None: "open"}
_HOLES_MAX = 100
"""Holes on the page; the document has them all."""


def drill_page(report: DrillReport) -> str:
    """The report as one HTML page."""
    title = f"Restore drill of backup {report.backup}"
    parts = [
        f"<h1>{_text(title)}</h1>",
        _verdict(report),
        _facts(report),
        *_list("What was different", report.findings),
        *_topics(report.topics),
        *_list("What the backup itself lacks", tuple(_lacking(report))),
        *_list("Left out", [f"{topic}: {reason}" for topic, reason in report.skipped]),
        *_list("Removed afterwards", report.removed),
        *_list("Removed of earlier drills that were killed", report.leftovers),
        *_digests(report.topics),
    ]
    return (
        f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>{_text(title)}</title>\n'
        f"<style>{_STYLE}</style>\n" + "\n".join(parts) + "\n</html>\n"
    )


def _text(text: str) -> str:
    """Others' names as HTML that any reader can bear: a page cannot be stored with what is no UTF-8."""
    return escape(printable(text))


def _verdict(report: DrillReport) -> str:
    if report.proven:
        lacks = " The backup itself lacks what is listed below." if report.lacking else ""
        text = f"Proven: {report.records:,} records were restored, read back, and are what the backup holds.{lacks}"
    elif report.proven is None:
        text = f"Nothing proven: {report.problem or 'there was nothing to compare.'}"
    else:
        text = f"Not proven: {report.problem or 'what was read back is not what the backup holds.'}"
    return f'<p class="verdict {_CLASSES[report.proven]}">{_text(text)}</p>'


def _lacking(report: DrillReport) -> Iterable[str]:
    for hole in report.lacking[:_HOLES_MAX]:
        yield f"{hole.topic}/{hole.partition} [{hole.start}, {hole.end}) {hole.reason}"
    if len(report.lacking) > _HOLES_MAX:
        yield f"and {len(report.lacking) - _HOLES_MAX:,} more: all are in report.json"


def _facts(report: DrillReport) -> str:
    facts = {
        "Restore point": f"commit {report.commit}, made {report.committed}",
        "Repository": report.repository,
        "Restored to": f"{report.place} (cluster {report.cluster_id})",
        "Began, ended": f"{report.began}, {report.ended} (the repository's clock)",
        "Took": f"{format_duration(report.restore_s)} to restore, {format_duration(report.compare_s)} to read back",
        "Amount": f"{report.records:,} records, {format_size(report.bytes)} of log",
        "Consistency": _consistency(report.consistency),
        "Seen as": f"a {report.isolation} consumer at the restore point",
        "Holes": f"{report.holes} ranges that the source had lost before they were backed up",
        "Run by": report.by,
        "With": ", ".join(f"{name} {version}" for name, version in report.versions.items()),
        "Drill, restore": f"{report.drill}, {report.restore or '-'}",
    }
    return _table([], [[f"<b>{_text(name)}</b>", _text(value)] for name, value in facts.items()])


def _consistency(found: ConsistencyReport | None) -> str:
    """What the topics may be trusted for together: never more than the weakest of them."""
    if found is None:
        return "-"
    if found.why:
        return f"as copied, {found.weakest}: {found.why}"
    return f"consistent cut, {found.weakest}; transactions left out: {found.left_out_count:,}"


def _topics(topics: Sequence[DrilledTopic]) -> Iterable[str]:
    if not topics:
        return
    yield "<h2>Topics</h2>"
    rows = [
        [
            _text(topic.source),
            _text("the source's" if topic.same_offsets else "gap-free"),
            f"{topic.partitions:,}",
            f"{topic.records:,}",
            f"{topic.invisible_records:,}",
            format_size(topic.bytes),
        ]
        for topic in topics
    ]
    yield _table(["Topic", "Offsets", "Partitions", "Records", "Aborted or undecided", "Size"], rows, numbers_from=2)


def _digests(topics: Sequence[DrilledTopic]) -> Iterable[str]:
    rows = [[_text(topic.source), f"<code>{_text(digest)}</code>"] for topic in topics for digest in topic.digests]
    if rows:
        yield "<h2>Digests</h2>"
        yield "<p>Over key, value, headers and time of every record, in order, for each partition.</p>"
        yield _table(["Topic", "Partition and digest"], rows)


def _list(title: str, items: Sequence[str]) -> Iterable[str]:
    if items:
        yield f"<h2>{_text(title)}</h2>"
        yield "<ul>" + "".join(f"<li>{_text(item)}</li>" for item in items) + "</ul>"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], *, numbers_from: int = 99) -> str:
    """`rows` hold HTML. Columns from number `numbers_from` on are set to the right."""
    lines = [_row("th", head, numbers_from)] if head else []
    return "\n".join(["<table>", *lines, *(_row("td", row, numbers_from) for row in rows), "</table>"])


def _row(tag: str, cells: Sequence[str], numbers_from: int) -> str:
    opened = [f'<{tag} class="number">' if at >= numbers_from else f"<{tag}>" for at in range(len(cells))]
    return "<tr>" + "".join(f"{start}{cell}</{tag}>" for start, cell in zip(opened, cells, strict=True)) + "</tr>"
