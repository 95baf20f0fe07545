"""Options that belong together, written once as the fields of a dataclass, taken by several commands as one value."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields
from functools import wraps
from typing import Any, TypeVar, get_type_hints

T = TypeVar("T")


def takes(group: type[T]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorator: the command's first parameter is an instance of `group`, whose fields become options of the command.

    The fields are annotated as typer wants parameters to be. They come before the command's own options in its help.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        options = _parameters(group)
        own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]

        @wraps(command)
        def run(**given: Any) -> None:  # noqa: ANN401  # whatever typer parsed
            command(group(**{each.name: given.pop(each.name) for each in options}), **given)

        parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*options, *own)]
        parameters.sort(key=lambda each: each.default is not inspect.Parameter.empty)
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # read by inspect
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        del run.__wrapped__  # its parameters are not the command's
        return run

    return decorate


def words_of(options: object, kind: type) -> dict[str, object]:
    """The options that a service's words (a `TypedDict`) name."""
    return {name: getattr(options, name) for name in kind.__annotations__}


def _parameters(group: type) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            each.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if each.default is MISSING else each.default,
            annotation=hints[each.name],
        )
        for each in fields(group)
    ]
