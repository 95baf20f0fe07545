"""Options that belong together, written once as the fields of a dataclass, taken by several commands as one value.

A field may also hold the words of a service (a `TypedDict`, see `model/option.py`): each word is an option then.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from enum import StrEnum
from functools import wraps
from itertools import chain
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple, get_type_hints, is_typeddict

import typer

from offsite.cli.options.common import checked_places
from offsite.model.option import Declared, declared
from offsite.model.selections.pattern_list import PATTERN_OPTIONS, split_all


class Taken(NamedTuple):
    """Choice of the words of a service that a command takes, in `Annotated[…]`: all, or `only` some, or all `but` some.
    `help` is what it says of a word where the service's own text does not fit."""

    only: tuple[str, ...] = ()
    but: tuple[str, ...] = ()
    help: Mapping[str, str] = MappingProxyType({})


def takes(*groups: type) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorator: the command's first parameters are instances of `groups`, whose fields become options of the command.

    The fields are annotated as typer wants parameters to be, or hold words. They come before the command's own options
    in its help.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        taken = [_Group(group) for group in groups]
        own = list(inspect.signature(command, eval_str=True).parameters.values())[len(groups) :]

        @wraps(command)
        def run(**given: Any) -> None:  # noqa: ANN401  # whatever typer parsed
            values = [each.value(given) for each in taken]
            command(*values, **given)

        of_groups = chain.from_iterable(each.parameters() for each in taken)
        parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*of_groups, *own)]
        parameters.sort(key=lambda each: each.default is not inspect.Parameter.empty)
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # read by inspect
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        del run.__wrapped__  # its parameters are not the command's
        return run

    return decorate


class _Group:
    """A dataclass of options, and what typer reads of each field."""

    def __init__(self, group: type) -> None:
        self._group, self._hints = group, get_type_hints(group, include_extras=True)
        self._options = {each.name: _parameters(each, self._hints[each.name]) for each in fields(group)}

    def parameters(self) -> Iterator[inspect.Parameter]:
        return chain.from_iterable(self._options.values())

    def value(self, given: dict[str, Any]) -> object:
        """The instance, made of what is taken out of `given`."""
        found = {name: {each.name: given.pop(each.name) for each in held} for name, held in self._options.items()}
        return self._group(**{name: held if _words(self._hints[name]) else held[name] for name, held in found.items()})


def _parameters(of: Field[Any], hint: Any) -> list[inspect.Parameter]:  # noqa: ANN401  # whatever is annotated
    """What typer reads of one field: of words one parameter each, else one."""
    if (words := _words(hint)) is None:
        return [_parameter(of.name, hint, inspect.Parameter.empty if of.default is MISSING else of.default)]
    taken = next((each for each in getattr(hint, "__metadata__", ()) if isinstance(each, Taken)), Taken())
    return [
        _parameter(each.name, Annotated[_type(each), _option(each, taken)], each.option.default)
        for each in declared(words)
        if each.name not in taken.but and (not taken.only or each.name in taken.only)
    ]


def _parameter(name: str, annotation: object, default: object) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _words(hint: Any) -> type | None:  # noqa: ANN401  # the same
    kind = getattr(hint, "__origin__", hint)
    return kind if is_typeddict(kind) else None


def _type(word: Declared) -> object:
    """As typer wants it: a choice is its enumeration, many values are a list."""
    if isinstance(word.option.default, StrEnum):
        return type(word.option.default)
    return list[str] | None if word.type == Sequence[str] | None else word.type


def _option(word: Declared, taken: Taken) -> Any:  # noqa: ANN401  # typer names no type for it
    return typer.Option(
        f"--{word.name.replace('_', '-')}",
        help=taken.help.get(word.name, word.option.help),
        show_default=word.option.shown_default or True,
        callback=split_all if word.name in PATTERN_OPTIONS else checked_places if word.name == "records" else None,
    )
