"""Requests to a service: one declaration for the option of a command and the keyword of Python.

A `TypedDict` holds name and type of every option, for type checkers (`**words: Unpack[…]`). Texts for people are an
`Option` in the same annotation: `at: Annotated[str | None, Option("…")]`. The command line makes its options from both,
and adds nothing (`cli/options/option_group.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple, TypeVar, cast, get_type_hints

WordsT = TypeVar("WordsT", bound=Mapping[str, object])


class Option(NamedTuple):
    """The help of an option, in full sentences, and the default for a missing option or None.

    A choice has a member as default. `shown_default` explains None in words, where the help does not.
    """

    help: str
    default: object = None
    shown_default: str = ""


class DeclaredOption(NamedTuple):
    """The `Option` with name and type of the keyword."""

    name: str
    type: object
    option: Option


@cache
def declared_options(words: type) -> tuple[DeclaredOption, ...]:
    """Return the options of a `TypedDict`, options of base classes first. Every key must have an `Option`."""
    hints = get_type_hints(words, include_extras=True).items()
    return tuple(DeclaredOption(name=name, type=hint.__origin__, option=hint.__metadata__[0]) for name, hint in hints)


def with_defaults(words: type[WordsT], arguments: Mapping[str, object]) -> WordsT:
    """Return `arguments`, with the default for every missing option or None."""
    defaults = {declaration.name: declaration.option.default for declaration in declared_options(words)}
    return cast("WordsT", defaults | {name: value for name, value in arguments.items() if value is not None})
