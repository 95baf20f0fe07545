"""Prints everything. Results go to stdout, everything else to stderr; a result is a frozen dataclass.

Text for people passes `printable` here, so no view can forget the escape: names come from outside. `-o
json` prints a document, `-o jsonl` a line per document; both hold the fields of the dataclass. The fields are the
contract for scripts: fields are added, never renamed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

import typer

from offsite.model.errors import ConfirmationMissing, Damaged, OffsiteError
from offsite.model.plain import plain
from offsite.model.untrusted.text import printable, printable_lines

if TYPE_CHECKING:
    from rich.console import Console

EXIT_PARTIAL = 3
"""Exit code of a finished command with holes or left-out parts: the data is safe, the report explains."""

WIDTH_OF_FILES = 140
"""Columns of tables in a file or a pipe: enough for a topic name and its figures in a line."""

ResultT = TypeVar("ResultT")


class OutputFormat(StrEnum):
    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"


def emit(result: ResultT, *, output: OutputFormat, render: Callable[[Console, ResultT], None]) -> None:
    """Print `result` to stdout: as JSON, or for people through `render`."""
    match output:
        case OutputFormat.TABLE:
            render(console(), result)
        case OutputFormat.JSON:
            print(json.dumps(plain(result), indent=2))  # noqa: T201
        case OutputFormat.JSONL:
            print(json.dumps(plain(result)))  # noqa: T201
    sys.stdout.flush()  # before anybody is asked about it, or anything is done because of it


def emit_each(results: Iterable[ResultT], *, name: str, output: OutputFormat, line: Callable[[ResultT], str]) -> None:
    """Print results as they come, in any number: a `line` for people, JSON lines, or a JSON document with a list under
    `name`. A reader may stop early (`| head`): then the command stops too."""
    texts: Iterable[str]
    match output:
        case OutputFormat.TABLE:
            texts = (f"{printable(line(result))}\n" for result in results)
        case OutputFormat.JSONL:
            texts = (f"{json.dumps(plain(result))}\n" for result in results)
        case OutputFormat.JSON:
            texts = _document(results, name)
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


def emit_notice(result: ResultT, *, render: Callable[[Console, ResultT], None]) -> None:
    """Show `result` to people on stderr, apart from the command's result."""
    from offsite.cli.safe_console import SafeConsole

    render(SafeConsole(highlight=False, soft_wrap=True, stderr=True), result)


def confirm(question: str) -> None:
    """Ask on the terminal. Raises `ConfirmationMissing` for a no, and without a terminal."""
    if not sys.stdin.isatty():
        raise ConfirmationMissing(f"not confirmed: {question}", hint="review the plan above, then add --yes")
    print(f"{printable(question)} [y/N] ", end="", file=sys.stderr, flush=True)  # noqa: T201
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise ConfirmationMissing(f"not confirmed: {question}", hint="nothing was changed")


def note(text: str) -> None:
    """Print a line for people, on stderr."""
    print(printable_lines(text), file=sys.stderr, flush=True)  # noqa: T201


def _document(results: Iterable[ResultT], name: str) -> Iterator[str]:
    yield f"{{{json.dumps(name)}: ["
    for number, result in enumerate(results):
        yield f"{',' if number else ''}\n  {json.dumps(plain(result))}"
    yield "\n]}\n"


def console() -> Console:
    """Return a console on stdout. rich is imported here, so `--help` and `-o json` stay fast.

    Long lines are not wrapped: a displayed command can be copied, and found by grep.
    """
    from offsite.cli.safe_console import SafeConsole

    return SafeConsole(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else WIDTH_OF_FILES)


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
    if _reported_damage:
        raise typer.Exit(Damaged.exit_code)
