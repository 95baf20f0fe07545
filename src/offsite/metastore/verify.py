"""Verifies that a backup file is as written, and holds the commands of the topic."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from offsite.metastore.backup_file import load
from offsite.metastore.comparison import CommandComparison, CommandMatch
from offsite.metastore.reading import FileProblem
from offsite.metastore.source import CommandSource


@dataclass(frozen=True, slots=True, kw_only=True)
class MetastoreVerifyReport:
    """The result of a check. `described`: the file has a sidecar, and every byte was checked; without a sidecar only
    the form. `problems` name the line, 0 for none. `against`: the topic compared with, empty for none. `difference`:
    the first differing command. `missing` and `more`: the commands at the end only in the file, or only in the topic.
    `unchecked`: lines at the end of the file without an entry in the sidecar, left by a crash or added by another
    program."""

    file: Path
    ok: bool
    commands: int
    described: bool
    problems: tuple[FileProblem, ...]
    against: str = ""
    difference: str = ""
    missing: int = 0
    more: int = 0
    unchecked: int = 0


def verify_file(file: Path, source: CommandSource | None = None) -> MetastoreVerifyReport:
    """Read the file, its sidecar, and with `source` the topic. Changes nothing. Raises `BackupFileDamaged` if the
    sidecar is unreadable as a whole, and errors of reading a topic."""
    read = load(file)
    problems = list(read.problems)
    if read.torn_bytes:
        problems.append(FileProblem(read.lines + 1, f"its last line is torn ({read.torn_bytes} bytes)"))
    difference, missing, more = "", 0, 0
    if source is not None:
        comparison = CommandComparison(read.commands, by_bytes=False)
        difference, more = _compared(comparison, source)
        missing = 0 if difference else comparison.missing
    return MetastoreVerifyReport(
        file=file,
        ok=not problems and not difference and not missing and not more,
        commands=len(read.commands),
        described=read.header is not None,
        problems=tuple(problems),
        against=source.topic if source else "",
        difference=difference,
        missing=missing,
        more=more,
        unchecked=sum(not command.described for command in read.commands) if read.header else 0,
    )


def _compared(comparison: CommandComparison, source: CommandSource) -> tuple[str, int]:
    """The first difference in words, and the number of commands only in the topic."""
    topic = source.find()
    records = source.read(source.start(), topic_id=topic.topic_id).records if topic else ()
    more = 0
    for record in records:
        outcome = comparison.take(record)
        if outcome is CommandMatch.DIFFERENT:
            return str(comparison.difference), 0
        more += outcome is CommandMatch.NEW
    return "", more
