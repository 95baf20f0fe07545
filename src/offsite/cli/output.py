"""Prints everything. Results go to stdout, everything else to stderr; a result is a frozen dataclass.

A view of a result yields lines and tables; only this module prints them. Text for people passes `printable` here, so no
view can forget the escape: names come from outside. `-o json` prints a document, `-o jsonl` a line per document; both
hold the fields of the dataclass. The fields are the contract for scripts: fields are added, never renamed.
"""

from __future__ import annotations

import json
import sys
import termios
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import StrEnum
from types import MappingProxyType
from typing import IO, TypeVar

import typer

from offsite.model.errors import (
    ConfirmationMissing,
    Damaged,
    KafkaUnavailable,
    NoRepository,
    OffsiteError,
    StoreUnavailable,
    UserError,
)
from offsite.model.plain import Plain, plain
from offsite.model.untrusted.text import printable, printable_lines

EXIT_PARTIAL = 3
"""Exit code of a finished command with holes or left-out parts: the data is safe, the report explains."""

WIDTH_OF_FILES = 140
"""Columns of tables in a file or a pipe: enough for a topic name and its figures in a line."""

_ASKED_AGAIN = (UserError, NoRepository, KafkaUnavailable, StoreUnavailable)
"""Errors of an answer: another answer may be right."""

REST_IN_JSON = "  and {} more; -o json lists them"
"""Line in place of listed items past the first ones."""

ResultT = TypeVar("ResultT")


class Table:
    """A table for people: the texts of its head and of its rows."""

    def __init__(self, *head: str) -> None:
        self.head = head
        self.rows: list[tuple[str, ...]] = []

    def add_row(self, *cells: str) -> None:
        self.rows.append(cells)


Line = str | Table
"""What a view yields: a line of text, or a table between the lines."""


class OutputFormat(StrEnum):
    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"


def emit(
    result: ResultT,
    *,
    output: OutputFormat,
    render: Callable[[ResultT], Iterable[Line]],
    more: Mapping[str, object] = MappingProxyType({}),
) -> None:
    """Print `result` to stdout: as JSON, or for people the lines that `render` makes of it. `more`: further fields of
    the JSON."""
    match output:
        case OutputFormat.TABLE:
            print_lines(render(result))
        case OutputFormat.JSON:
            print(json.dumps(_with_more(result, more), indent=2))  # noqa: T201
        case OutputFormat.JSONL:
            print(json.dumps(_with_more(result, more)))  # noqa: T201
    sys.stdout.flush()  # before anybody is asked about it, or anything is done because of it


def _with_more(result: object, more: Mapping[str, object]) -> Plain:
    document = plain(result)
    return document | {name: plain(value) for name, value in more.items()} if isinstance(document, dict) else document


def print_lines(lines: Iterable[Line], *, to: IO[str] | None = None) -> None:
    """Print lines and tables to stdout, or `to` another stream. A line is not wrapped: a displayed command can be
    copied, and found by grep."""
    for line in lines:
        if isinstance(line, str):
            print(printable(line), file=to)
        else:
            _print_table(line, to or sys.stdout)


def _print_table(table: Table, to: IO[str]) -> None:
    """Print a table. rich is imported here, so all else stays fast."""
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    shown = RichTable()
    for head in table.head:
        shown.add_column(Text(printable(head)))
    for row in table.rows:
        shown.add_row(*(Text(printable(cell)) for cell in row))
    width = None if to.isatty() or to is sys.stderr else WIDTH_OF_FILES
    Console(file=to, highlight=False, soft_wrap=True, width=width).print(shown)


def first_lines(items: Sequence[ResultT], text: Callable[[ResultT], str], *, most: int, more: str) -> Iterator[str]:
    """A line for each of the first items, at `most`; the rest is only `more`, with its number in place of `{}`."""
    yield from map(text, items[:most])
    if len(items) > most:
        yield more.format(len(items) - most)


def remark_lines(texts: Iterable[str], *, indent: str = "  ") -> Iterator[str]:
    """A line for each remark on a result."""
    return (f"{indent}note: {text}" for text in texts)


def emit_each(
    results: Iterable[ResultT],
    *,
    name: str,
    output: OutputFormat,
    line: Callable[[ResultT], str],
    more: Mapping[str, object] = MappingProxyType({}),
) -> None:
    """Print results as they come, in any number: a `line` for people, JSON lines, or a JSON document with a list under
    `name`, and `more` fields. A reader may stop early (`| head`): then the command stops too."""
    texts: Iterable[str]
    match output:
        case OutputFormat.TABLE:
            texts = (f"{printable(line(result))}\n" for result in results)
        case OutputFormat.JSONL:
            texts = (f"{json.dumps(plain(result))}\n" for result in results)
        case OutputFormat.JSON:
            texts = _document(results, name, more)
    emit_bytes(text.encode() for text in texts)


def emit_bytes(parts: Iterable[bytes], *, after_each: bytes = b"") -> None:
    """Write `parts` to stdout unchanged."""
    sys.stdout.flush()
    for part in parts:
        sys.stdout.buffer.write(part + after_each)
    sys.stdout.buffer.flush()


def emit_error(error: OffsiteError, *, output: OutputFormat) -> None:
    """Print an error to stderr: `error[ID]: message` and a hint line, or a JSON line."""
    if output is OutputFormat.TABLE:
        note(f"error[{error.id}]: {error.message}")
        if error.hint:
            note(f"hint: {error.hint}")
        return
    document = {"id": error.id, "exit_code": error.exit_code, "message": error.message, "hint": error.hint}
    print(json.dumps({"error": document}), file=sys.stderr)  # noqa: T201


def emit_notice(result: ResultT, *, render: Callable[[ResultT], Iterable[Line]]) -> None:
    """Show `result` to people on stderr, apart from the command's result."""
    print_lines(render(result), to=sys.stderr)


def can_ask() -> bool:
    """Whether a person sees a question and can answer: on a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def ask(question: str, parse: Callable[[str], ResultT], *, default: str = "") -> ResultT:
    """Ask on the terminal, again after an answer that `parse` refuses. An empty line is the answer `default`. Raises
    `ConfirmationMissing` at the end of the input, and other errors of `parse`."""
    while True:
        text = _answer(f"{question}{f' [{default}]' if default else ''}:", question).strip() or default
        try:
            return parse(text)
        except _ASKED_AGAIN as error:
            note(f"{error.message}{f'; {error.hint}' if error.hint else ''}")


def confirm(question: str) -> None:
    """Ask on the terminal. What was typed before is no answer: the plan could not be read then. Raises
    `ConfirmationMissing` for a no, and without a terminal."""
    if not sys.stdin.isatty():
        raise ConfirmationMissing(f"not confirmed: {question}", hint="review the plan above, then add --yes")
    with suppress(termios.error):
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    if _answer(f"{question} [y/N]", question).strip().lower() not in {"y", "yes"}:
        raise _not_confirmed(question)


def _answer(prompt: str, question: str) -> str:
    print(f"{printable(prompt)} ", end="", file=sys.stderr, flush=True)  # noqa: T201
    line = sys.stdin.readline()
    if not line:
        note("")  # the cursor stands behind the question
        raise _not_confirmed(question)
    return line


def _not_confirmed(question: str) -> ConfirmationMissing:
    return ConfirmationMissing(f"not confirmed: {question}", hint="nothing was changed")


def note(text: str) -> None:
    """Print a line for people, on stderr."""
    print(printable_lines(text), file=sys.stderr, flush=True)  # noqa: T201


def _document(results: Iterable[ResultT], name: str, more: Mapping[str, object]) -> Iterator[str]:
    yield f"{{{json.dumps(name)}: ["
    for number, result in enumerate(results):
        yield f"{',' if number else ''}\n  {json.dumps(plain(result))}"
    fields = (f", {json.dumps(field)}: {json.dumps(plain(value))}" for field, value in more.items())
    yield f"\n]{''.join(fields)}}}\n"


_reported_damage: list[str] = []


def report_damage(problem: str) -> None:
    """Warn of `problem`, and let the command end with the exit code of damage."""
    if problem not in _reported_damage:
        _reported_damage.append(problem)
        note(f"warning: {problem}")


@contextmanager
def exit_on_damage() -> Iterator[None]:
    """A context that ends with the exit code of damage after a reported damage, unless the context raises an exit code
    of its own.

    A command that met damage and handled the sound rest must not end like a success.
    """
    _reported_damage.clear()
    yield
    exit_if_damaged()


def exit_if_damaged() -> None:
    """Raise the exit code of damage, if damage was reported."""
    if _reported_damage:
        raise typer.Exit(Damaged.exit_code)


def reported_damage() -> Sequence[str]:
    """The damage that was reported during the command."""
    return tuple(_reported_damage)
