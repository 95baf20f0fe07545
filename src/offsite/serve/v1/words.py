"""The words of a service as the body of a request: the option names of the command, checked by type.

Every service declares its words once (`model/options.py`). The body is made from the declaration, and the command line
of a job is made from the body. Every argument is `--name=value`, so no value can become an option.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, create_model

from offsite.model.bounds import MAX_OFFSET
from offsite.model.errors import BadOption
from offsite.model.options import DeclaredOption, declared_options
from offsite.model.selection import PATTERN_OPTIONS, escape_pattern

_TEXT_MAX = 4_000
_LIST_MAX = 10_000
_STARS_MAX = 3


class Body(BaseModel):
    """The body of a request: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


def make_body(name: str, words: type, *, but: Sequence[str] = (), **more: Any) -> type[Body]:  # noqa: ANN401  # fields
    """Make a body with the words of a service, all optional. Words for files of the local machine are left out: no
    caller may read them. `more`: further fields, in the form of pydantic."""
    options = [
        option for option in declared_options(words) if option.name not in but and Path not in get_args(option.type)
    ]
    return create_model(name, __base__=Body, **{option.name: _field(option) for option in options}, **more)


def check_bounded(words: Mapping[str, Any]) -> None:
    """Return if all patterns in the `words` of a request can be matched in bounded time: Python's regular expressions
    may take years for a name of six letters, and block the whole process. Raises `BadOption`."""
    for name in ("topics", "exclude", "groups", "rename"):
        for part in words.get(name) or ():
            stars = part.rpartition("=")[0].count("*") if name == "rename" else 0
            if part.strip().startswith("regex:") or stars > _STARS_MAX:
                raise BadOption(
                    f"a coordinator does not accept this pattern: {part[:60]!r}",
                    hint="name topics, or use * a few times; the offsite commands accept regular expressions",
                )


def sent_words(body: BaseModel, *, but: Sequence[str] = ()) -> dict[str, Any]:
    """The fields of a request that are set."""
    return {name: value for name, value in body.model_dump(exclude_none=True).items() if name not in but}


def to_arguments(words: Mapping[str, object]) -> list[str]:
    """`{"topics": ["a", "b"], "deep": True}` → `--topics=a --topics=b --deep`."""
    return [text for name, value in words.items() for text in _argument(name, value)]


def _argument(name: str, value: object) -> list[str]:
    option = f"--{name.replace('_', '-')}"
    if value is None or value is False:
        return []
    if value is True:
        return [option]
    texts = map(str, value if isinstance(value, list | tuple) else [value])
    return [f"{option}={escape_pattern(text) if name in PATTERN_OPTIONS else text}" for text in texts]


def _field(word: DeclaredOption) -> Any:  # noqa: ANN401  # as pydantic wants it
    return (_type(word), Field(default=None, description=word.option.help))


def _type(word: DeclaredOption) -> Any:  # noqa: ANN401  # a type
    if isinstance(word.option.default, StrEnum):
        return Literal[tuple(choice.value for choice in type(word.option.default))] | None
    kinds = [kind for kind in get_args(word.type) or (word.type,) if kind is not NoneType]
    if kinds == [bool]:
        return bool | None
    if kinds == [int]:
        return _Number | None
    return _Texts | None if word.type == Sequence[str] | None else _Text | None


_Number = Annotated[int, Field(ge=0, le=MAX_OFFSET)]
_Text = Annotated[str, Field(max_length=_TEXT_MAX)]
_Texts = Annotated[list[_Text], Field(max_length=_LIST_MAX)]
