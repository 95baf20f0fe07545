"""Documentation pages as scripts: the `console` blocks of a page, run in order in one shell, and what they print.

A block's info string may name the exit code of its last command: `console exit=14`. The lines under a command must be
printed in that order; lines in between may be left out.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).parents[3]
LIMIT_S = 500.0
SHOWN_FOLDER = "/tmp/tour"
SHOWN_PORT = "19092"

_BLOCK = re.compile(r"^( *)```console(?: exit=(\d+))?\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_MASKS = (
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z"), "TIME"),
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}"), "UUID"),
    (re.compile(r"\d{8}-\d{6}-[0-9a-f]{8}"), "RESTORE"),
    (re.compile(r"\d{20}-[0-9a-f]{8}"), "START-ATTEMPT"),
    (re.compile(r"\[\d+, \d+\): "), "RANGE: "),
    (re.compile(r"\b[\w-]{22}(?=, (topics|after|first|this|offsets|but)| against| into|$)"), "CLUSTER"),
    (re.compile(r"head (\d+):[0-9a-f]{16}"), r"head \1:HASH"),
    (re.compile(r"pid \d+"), "PID"),
    (re.compile(r"process \d+ of \S+ on \S+"), "WHO"),
    (re.compile(r"\d[\d.]* (B|KiB|MiB)"), "SIZE"),
    (re.compile(r"[\w. ]+ old$"), "AGE old"),
    (re.compile(r"\b(byte|offset) \d+"), r"\1 N"),
    (re.compile(r"\d+ records, index"), "N records, index"),
    (re.compile(r"^orders/\d+@\d+  TIME  NULL  order \d+$"), "RECORD"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """`shown`: the lines that the page shows as its output."""

    text: str
    shown: tuple[str, ...]
    exit_code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    command: Command
    exit_code: int
    output: str


def commands(page: str) -> tuple[Command, ...]:
    """The commands of all `console` blocks, in order."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return tuple(command for match in _BLOCK.finditer(text) for command in _block(*match.groups()))


def run(
    chosen: Sequence[Command], folder: Path, steps: Path, environment: Mapping[str, str], *, port: int
) -> list[Ran]:
    """Run commands in one shell in `folder`, up to the first command that does not end as it should.

    `port` stands in for the one in the pages; `steps` is an empty folder for what the commands print.
    """
    script = "\n".join(_step(each, steps / str(n)) for n, each in enumerate(chosen)).replace(SHOWN_PORT, str(port))
    subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=_environment(environment),
        stdin=subprocess.DEVNULL,
        timeout=LIMIT_S,
        check=False,
    )
    return [_ran(each, steps / str(n)) for n, each in enumerate(chosen) if (steps / f"{n}.code").exists()]


def is_shown(ran: Ran, folder: Path, *, port: int) -> bool:
    """Whether the output has what the page shows, in that order."""
    text = ran.output.replace(str(folder), SHOWN_FOLDER).replace(str(port), SHOWN_PORT)
    printed = iter([_masked(line) for line in text.splitlines()])
    return all(_masked(line) in printed for line in ran.command.shown)


def _block(indent: str, exit_code: str | None, body: str) -> Iterator[Command]:
    lines = [line.removeprefix(indent) for line in body.splitlines()]
    starts = [n for n, line in enumerate(lines) if line.startswith("$ ")]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        code = int(exit_code or 0) if start == starts[-1] else 0
        yield Command(text=lines[start][2:], shown=tuple(lines[start + 1 : end]), exit_code=code)


def _step(command: Command, step: Path) -> str:
    """In the shell itself, so that `export` lasts."""
    return (
        f"{{ {command.text}\n}} > {step}.out 2>&1; code=$?\n"
        f"echo $code > {step}.code; [ $code = {command.exit_code} ] || exit 1"
    )


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("OFFSITE_")}
    return inherited | {"PATH": path} | dict(more)


def _ran(command: Command, step: Path) -> Ran:
    return Ran(
        command=command,
        exit_code=int(step.with_suffix(".code").read_text()),
        output=step.with_suffix(".out").read_text(encoding="utf-8"),
    )


def _masked(line: str) -> str:
    """Without what differs from run to run. In tables no number counts, and no width."""
    for pattern, name in _MASKS:
        line = pattern.sub(name, line)
    cells = re.split("[│┃]", line)
    if len(cells) > 1:
        line = "|".join(re.sub(r"\d[\d,]*", "N", cell).strip() for cell in cells)
    return line.strip()
