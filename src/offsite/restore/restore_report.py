"""The proof of a restore as a page for people: one self-contained HTML file, to be filed, printed, sent to an auditor.

Made of the result as a JSON document, so that a command and a coordinator write the same page. Pure. The result of a
job may come from anybody who can write into the repository: each field is read strictly, and all text is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import cast

from offsite.model.errors import DamagedObject
from offsite.model.names import amount
from offsite.model.units import format_size
from offsite.model.untrusted.json_object import JsonObject, JsonValue
from offsite.reports.html_page import VerdictStyle, document, facts, items, table, text, verdict
from offsite.repository.restores.record import RestoreOutcome

_LISTED_MAX = 100
"""Findings, notes and missing ranges of the page."""


def restore_page(result: Mapping[str, object], outcome: RestoreOutcome | None, named: Mapping[str, str]) -> str:
    """The page of a restore's `result`. `outcome`: its stored report, with the digests; None: not known here. `named`:
    further facts by name. Raises `DamagedObject` for a document that is no result of a restore."""
    read = JsonObject(fields=cast("Mapping[str, JsonValue]", result), damaged=DamagedObject)
    title = f"Restore of backup {read.text('backup')}"
    parts = [
        f"<h1>{text(title)}</h1>",
        _verdict(read),
        facts({**_facts(read), **named}),
        *_list("What was different", (_finding(finding) for finding in read.children("findings"))),
        *_topics(read),
        *_list("Missing in the backup itself", (_hole(hole) for hole in read.children("lacking"))),
        *_list("Could not be read back", (_uncompared(partition) for partition in read.children("uncompared"))),
        *_list("Left out", (": ".join(map(str, row)) for row in _rows(read, "skipped"))),
        *_list("Settings not set", (" ".join(map(str, row)) for row in _rows(read, "left_out"))),
        *_list("Notes", read.texts("notes")),
        *_digests(outcome),
    ]
    return document(title, parts)


def _verdict(read: JsonObject) -> str:
    records = amount(read.count("records"), "record was", "records were")
    if read.fields.get("verified") is None:
        why = read.text("problem") or "nothing was compared, or some partitions could not be read back"
        return verdict(f"Restored, nothing proven: {why}.", VerdictStyle.WARN)
    if not read.flag("verified"):
        return verdict("Not proven: the restored records differ from the backup.", VerdictStyle.BAD)
    lacks = " The backup itself does not have the ranges listed below." if read.children("lacking") else ""
    return verdict(f"Proven: {records} restored and read back, equal to the backup.{lacks}", VerdictStyle.GOOD)


def _facts(read: JsonObject) -> dict[str, str]:
    compared = read.fields.get("compared_records")
    return {
        "Restore": read.text("restore"),
        "Restore point": f"commit {read.count('commit'):,}",
        "Amount": f"{amount(read.count('records'), 'record')}, {format_size(read.count('bytes'))} of log",
        "Compared": "nothing" if compared is None else amount(read.count("compared_records"), "record"),
        "Consistency": _consistency(read),
        "Seen as": f"a {read.text('isolation')} consumer at the restore point",
        "Consumer groups": _groups(read),
    }


def _groups(read: JsonObject) -> str:
    groups = read.optional_child("groups")
    if groups is None:
        return "left as they were"
    failed, refused = len(groups.children("failed")), len(groups.children("refused"))
    open_ends = f"; {failed:,} groups failed, {refused:,} offsets refused" if failed or refused else ""
    return f"{amount(groups.count('groups'), 'group')}, {groups.count('offsets_set'):,} offsets set{open_ends}"


def _consistency(read: JsonObject) -> str:
    consistency = read.optional_child("consistency")
    if consistency is None:
        return "-"
    why = consistency.text("why")
    said = "a consistent cut" if consistency.text("cut") == "consistent" else "as copied"
    return f"{said}, {consistency.text('weakest')}{f': {why}' if why else ''}"


def _topics(read: JsonObject) -> Iterator[str]:
    topics = read.child("topics")
    rows = [_topic(name, topics.child(name)) for name in topics.fields]
    if rows:
        head = [
            "Topic in the cluster",
            "Topic of the backup",
            "Offsets",
            "Partitions",
            "Records",
            "Not visible",
            "Size",
        ]
        yield "<h2>Topics</h2>"
        yield table(head, rows, numbers_from=3)


def _topic(name: str, topic: JsonObject) -> list[str]:
    return [
        text(name),
        text(topic.text("source")),
        "the source's" if topic.flag("same_offsets") else "gap-free",
        f"{topic.count('partitions'):,}",
        f"{topic.count('records'):,}",
        f"{topic.count('invisible_records'):,}",
        format_size(topic.count("bytes")),
    ]


def _finding(finding: JsonObject) -> str:
    partition = finding.integer("partition", least=-1)
    where = finding.text("topic") if partition < 0 else f"{finding.text('topic')}/{partition}"
    return f"{where}: {finding.text('kind')}: {finding.text('detail')}"


def _hole(hole: JsonObject) -> str:
    return (
        f"{hole.text('topic')}/{hole.partition()} offsets {hole.count('start'):,} to {hole.count('end') - 1:,}: "
        f"{hole.text('reason')}"
    )


def _uncompared(partition: JsonObject) -> str:
    return f"{partition.text('topic')}/{partition.partition()}: {partition.text('message')}"


def _rows(read: JsonObject, name: str) -> Iterable[tuple[object, ...]]:
    rows = read.fields.get(name)
    return [tuple(row) for row in rows if isinstance(row, list | tuple)] if isinstance(rows, list | tuple) else []


def _list(title: str, lines: Iterable[str]) -> Iterator[str]:
    said = list(lines)
    if said:
        more = [f"and {len(said) - _LISTED_MAX:,} more"] if len(said) > _LISTED_MAX else []
        yield f"<h2>{text(title)}</h2>"
        yield items([*said[:_LISTED_MAX], *more])


def _digests(outcome: RestoreOutcome | None) -> Iterator[str]:
    partitions = [] if outcome is None else [partition for partition in outcome.partitions if partition.digest]
    if partitions:
        yield "<h2>Digests</h2>"
        yield (
            "<p>Over key, value, headers and time of every record, in order, for each partition. They are read from "
            "the repository: whoever may write there can change them.</p>"
        )
        rows = [
            [text(str(partition.target)), f"<code>{text(partition.digest)}</code>"]
            for partition in sorted(partitions, key=lambda partition: partition.target)
        ]
        yield table(["Partition", "Digest"], rows)
