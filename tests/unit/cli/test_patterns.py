"""A pattern with a comma in it, at every place where a pattern can stand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import typer

from offsite.backup.options import parse_backup
from offsite.checkpoint.options import parse_participants
from offsite.cli.app import app
from offsite.cli.commands.checkpoint import TakeOptions
from offsite.generations.request import GenerationInput, parse_generations
from offsite.model.selection import PATTERN_OPTIONS, split_patterns, to_arguments
from offsite.operator.decide.options import option_words, parse_parameters
from offsite.overview.restore_choice import split_list
from offsite.restore.options import parse_restore
from offsite.table.options import read_options

REGEX = "regex:^rx-[0-9]{1,3}$"
TYPED = [f"{REGEX},orders", r"regex:^(a\,|b),c{1,2}$"]
MEANT = [REGEX, "orders", "regex:^(a,|b)", "c{1,2}$"]
OTHERS = {
    "partitions",
    "before",
    "header",
    "zeebe",
    "hook",
    "namespace",
    "allow_image",
    "allow_host",
    "allow_metadata",
    "target",
    "with_",
    "place",
    "records",
    "where",
}
"""Options that may be given several times and hold no patterns: what they hold may have commas of its own."""


def _parameters(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    for name, child in getattr(command, "commands", {}).items():
        yield from _parameters(child, f"{path} {name}")
    if not hasattr(command, "commands"):
        yield from ((f"{path} --{each.name}", each) for each in command.params if getattr(each, "multiple", False))


LISTS = dict(_parameters(typer.main.get_command(app), "offsite"))
PATTERNS = {path: parameter for path, parameter in LISTS.items() if parameter.name in PATTERN_OPTIONS}


@pytest.mark.parametrize("path", PATTERNS)
def test_a_command_line_divides_at_commas_outside_of_brackets(path: str) -> None:
    parameter = PATTERNS[path]
    with typer.Context(typer.main.get_command(app)) as context:
        assert parameter.process_value(context, TYPED) == MEANT
        assert not parameter.process_value(context, None)


def test_each_list_of_each_command_is_one_of_patterns_or_known_not_to_be() -> None:
    names = {parameter.name for parameter in LISTS.values()}

    assert names > PATTERN_OPTIONS
    assert {each for each in names - PATTERN_OPTIONS if not each.startswith("spark_")} <= OTHERS


def _of_restore(name: str) -> Callable[[Sequence[str]], str]:
    return lambda patterns: str(parse_restore({name: patterns}))  # type: ignore[misc]  # a name of it


def _of_backup(name: str) -> Callable[[Sequence[str]], str]:
    return lambda patterns: str(parse_backup("b", {"topics": ["orders"], name: patterns}))  # type: ignore[misc]


LISTS_OF_PYTHON = {
    "backup topics": _of_backup("topics"),
    "backup exclude": _of_backup("exclude"),
    "backup groups": _of_backup("groups"),
    "backup expect_deletes": _of_backup("expect_deletes"),
    "restore topics": _of_restore("topics"),
    "restore exclude": _of_restore("exclude"),
    "restore groups": _of_restore("groups"),
    "checkpoint participant_topics": lambda patterns: str(
        parse_participants({"participants": "markers", "participant_topics": patterns})
    ),
}


@pytest.mark.parametrize("place", LISTS_OF_PYTHON)
def test_an_element_of_a_list_of_python_is_one_pattern(place: str) -> None:
    assert repr((REGEX,))[1:-2] in LISTS_OF_PYTHON[place]([REGEX])
    if not place.endswith("groups"):
        assert repr(MEANT[2])[1:-1] in LISTS_OF_PYTHON[place]([MEANT[2]])


def test_a_rename_of_a_list_is_one_rule() -> None:
    request = parse_restore({"rename": [rf"{REGEX}=\g<0>-back"]})

    assert request.renames.target_name("rx-22") == "rx-22-back"


@pytest.mark.parametrize("name", sorted(PATTERN_OPTIONS))
def test_what_the_api_hands_to_a_command_is_what_it_was_asked(name: str) -> None:
    told = to_arguments({name: [REGEX, "a,b", r"a\,b"], "partitions": ["orders:0,2"], "before": ["topic=a,offset=1"]})

    texts = [each.partition("=")[2] for each in told if each.startswith(f"--{name.replace('_', '-')}=")]
    assert [split_patterns(each) for each in texts] == [[REGEX], ["a,b"], [r"a\,b"]]
    assert told[-2:] == ["--partitions=orders:0,2", "--before=topic=a,offset=1"]


@pytest.mark.parametrize("name", ["topics", "rename", "groups"])
def test_what_an_operator_hands_to_a_command_is_what_was_declared(name: str) -> None:
    told = option_words("restore r", {name: (REGEX, "a,b")})

    assert [split_patterns(each.partition("=")[2]) for each in told] == [[REGEX], ["a,b"]]


def test_a_checkpoint_in_the_background_is_told_the_same_topics() -> None:
    options = TakeOptions(repo="r", backup="b", applications={"participant_topics": [REGEX, "orders"]})

    told = options.arguments(1)
    texts = [value for name, value in pairwise(told) if name == "--participant-topics"]
    assert [split_patterns(each) for each in texts] == [[REGEX], ["orders"]]


def test_one_text_of_several_patterns_is_divided_by_the_same_rule(tmp_path: Path) -> None:
    table = {"repo": "r", "backup": "b", "topics": TYPED[0], "exclude": TYPED[0], "incarnation": "a=1,b=2"}
    properties = tmp_path / "connector.properties"
    properties.write_text(f"name=set_A\ntopics={TYPED[0]}\n")

    texts: Mapping[str, Sequence[str] | None] = {
        "a form": split_list("\n".join(TYPED)),
        "parameters.groups": parse_parameters({"groups": ",".join(TYPED)}).groups,
    }
    assert {place: list(patterns or ()) for place, patterns in texts.items()} == dict.fromkeys(texts, MEANT)
    assert read_options(table).selection.include == read_options(table).selection.exclude == (REGEX, "orders")
    assert read_options(table).incarnations == {"a": "1", "b": "2"}
    request = parse_generations(GenerationInput(instance="a"), {}, properties)  # type: ignore[arg-type]
    assert request.backup.selection is not None
    assert request.backup.selection.include == (REGEX, "orders")
