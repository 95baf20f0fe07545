"""A hint is the next step of somebody in trouble: each command and option that one names must exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import typer

import offsite
from offsite.cli.app import app

SOURCES = Path(offsite.__file__).parent
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
COMMAND = re.compile(r"\boffsite((?: [a-z][a-z-]*)+)((?: (?:--?[a-z][a-z-]*|[^\s,;]+))*)")
TO_BE_RUN = re.compile(r"(: |`|\brun )$")
"""What stands before a command. Elsewhere `offsite` may be the program's name in a sentence."""
OTHER_TOOLS = ("pip install",)
A_VALUE = "VALUE"
"""Stands for what an f-string fills in."""


def hints() -> Iterator[tuple[str, str]]:
    """(file:line and first words, text) of every hint: what is given as `hint=`, and constants that are named so."""
    for path in sorted(SOURCES.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if "hint" not in source.lower():
            continue  # parsing is what takes long
        tree = ast.parse(source)
        constants = _constants(tree)
        for node in ast.walk(tree):
            for value in _hint_values(node):
                for text in _texts(value, constants):
                    yield f"{path.relative_to(SOURCES)}:{value.lineno} {text[:40]}", text


def _hint_values(node: ast.AST) -> Iterator[ast.expr]:
    match node:
        case ast.Call(keywords=keywords):
            yield from (each.value for each in keywords if each.arg == "hint")
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if "HINT" in name.upper():
            yield value


def _constants(tree: ast.Module) -> Mapping[str, ast.expr]:
    return {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _texts(value: ast.expr, constants: Mapping[str, ast.expr]) -> Iterator[str]:
    match value:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=parts):
            yield "".join(_part(part, constants) for part in parts)
        case ast.Name(id=name) if name in constants:
            yield from _texts(constants[name], constants)
        case ast.BinOp(left=left, right=right):
            yield "".join([*_texts(left, constants), *_texts(right, constants)])
        case ast.IfExp(body=body, orelse=orelse):
            yield from _texts(body, constants)
            yield from _texts(orelse, constants)


def _part(part: ast.expr, constants: Mapping[str, ast.expr]) -> str:
    if isinstance(part, ast.FormattedValue):
        return next(_texts(part.value, constants), A_VALUE)
    return next(_texts(part, constants))


TREE: Any = typer.main.get_command(app)


def options_of(command: Any) -> set[str]:
    own = {"--help"} | {name for parameter in command.params for name in parameter.opts}
    return own.union(*(options_of(child) for child in getattr(command, "commands", {}).values()))


ALL_OPTIONS = options_of(TREE)


def wrong_in(text: str) -> list[str]:
    """What `text` tells people to type that does not exist."""
    if any(tool in text for tool in OTHER_TOOLS):
        return []
    wrong = [option for option in OPTION.findall(text) if option not in ALL_OPTIONS]
    for match in COMMAND.finditer(text):
        command, words = TREE, match[1].split()
        if words[0] not in TREE.commands and not TO_BE_RUN.search(text[: match.start()]):
            continue
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
        if hasattr(command, "commands"):
            wrong.append(match[0])
            continue
        wrong += [f"{match[0]} ({each})" for each in OPTION.findall(match[2]) if each not in options_of(command)]
    return wrong


@pytest.mark.slow
def test_what_hints_say_can_be_typed() -> None:
    texts = dict(hints())
    assert {place: wrong for place, text in texts.items() if (wrong := wrong_in(text))} == {}
    assert len(texts) > 100, "they are found in all their forms"
    assert any("--verbose" in text for text in texts.values())


@pytest.mark.parametrize(
    "text",
    [
        "run again with --loud",
        "offsite backup fly",
        "run: offsite verify --deep --verbosely",
        "offsite list --deep",
        "offsite restore",
        "see what is there with: offsite look",
    ],
)
def test_what_does_not_exist_is_noticed(text: str) -> None:
    assert wrong_in(text)
