"""What can be asked of a service: one declaration for the option of a command and the keyword of Python.

A `TypedDict` holds the name and the type of each, so that type checkers know them (`**words: Unpack[…]`). What only
people need is an `Option` in the same annotation: `at: Annotated[str | None, Option("…")]`. The command line makes its
options of both, and knows nothing of its own (`cli/options/option_group.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple, TypeVar, cast, get_type_hints

WordsT = TypeVar("WordsT", bound=Mapping[str, object])


class Option(NamedTuple):
    """The help of an option, in full sentences, and what counts where it is left out or None.

    A choice has a member as its default. `shown_default` tells in words what None means, where the help does not.
    """

    help: str
    default: object = None
    shown_default: str = ""


class Declared(NamedTuple):
    """The `Option` with the name and the type of its keyword."""

    name: str
    type: object
    option: Option


@cache
def declared(words: type) -> tuple[Declared, ...]:
    """The options of a `TypedDict`, each of whose keys has one, those of its bases first."""
    hints = get_type_hints(words, include_extras=True).items()
    return tuple(Declared(name=name, type=hint.__origin__, option=hint.__metadata__[0]) for name, hint in hints)


def filled(words: type[WordsT], given: Mapping[str, object]) -> WordsT:
    """What was given, and the default of everything that was left out or is None."""
    defaults = {each.name: each.option.default for each in declared(words)}
    return cast("WordsT", defaults | {name: value for name, value in given.items() if value is not None})
