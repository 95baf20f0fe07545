"""What a request of the API carries: the site, the caller, the body, the confirmation of a plan.

Every use declares its words once (`model/options.py`). A body `with_words` of a use has the option names of the
command, checked by type. The command line of a job is made from the body. Every argument is `--name=value`, so no value
can become an option.

A caller confirms exactly one plan and sends its value back; the plan is made again and compared. No coordinator
stores a plan. So the answer holds all inputs of the plan in full: absolute times, not `2h-ago`.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import pathlib
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from types import NoneType
from typing import Annotated, Any, Literal, TypeVar, get_args

from fastapi import Depends, Header, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field, create_model

from offsite.model.bounds import MAX_OFFSET
from offsite.model.errors import BadOption, PlanChanged
from offsite.model.options import DeclaredOption, declared_options
from offsite.model.plain import plain
from offsite.serve.answers import STATUS_MEANINGS, ProblemAnswer
from offsite.serve.scoped_site import ScopedSite
from offsite.serve.site import Site
from offsite.serve.tokens import Caller

_TEXT_MAX = 4_000
_LIST_MAX = 10_000
_STARS_MAX = 3


def site_of(request: Request) -> Site:
    """Return the site whose page or object is requested, with as much of it as the caller may see."""
    site: Site = request.state.site
    caller: Caller = request.state.caller
    return site if not caller.scope.is_limited else ScopedSite(site, caller.scope, caller.name)


def path_of(request: Request) -> str:
    """Return the requested path, decoded, without the base of its site."""
    path: str = request.scope["path"]
    return path.removeprefix(request.scope.get("root_path", ""))


def _caller(request: Request) -> Caller:
    caller: Caller = request.state.caller
    return caller


TheSite = Annotated[Site, Depends(site_of)]
TheCaller = Annotated[Caller, Depends(_caller)]
BackupName = Annotated[str, Path(description="Name of the backup.", max_length=255)]
CommitNumber = Annotated[int | None, Query(ge=0, le=MAX_OFFSET, description="As of this commit; default: the newest.")]
CheckpointId = Annotated[int, Path(ge=1, le=MAX_OFFSET, description="Id of the checkpoint.")]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        description="The same text for each repetition of a request: the request is executed once.",
    ),
]
Confirmation = Annotated[str, Query(max_length=64, description="The value from the plan.")]
ConfirmationText = Annotated[str, Field(max_length=64, description="The value from the plan.")]

PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": ProblemAnswer, "description": meaning} for status, meaning in STATUS_MEANINGS.items()
}


class Body(BaseModel):
    """The body of a request: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


BodyT = TypeVar("BodyT", bound=Body)


def with_words(words: type) -> Callable[[type[BodyT]], type[BodyT]]:
    """A decorator: the body has the words of a use, too, all optional. Words for files of the local machine are left
    out: no caller may read them."""
    options = [option for option in declared_options(words) if pathlib.Path not in get_args(option.type)]
    fields: dict[str, Any] = {option.name: _field(option) for option in options}

    def extended(body: type[BodyT]) -> type[BodyT]:
        return create_model(body.__name__, __base__=body, __doc__=body.__doc__, __module__=body.__module__, **fields)

    return extended


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


def make_confirmation(plan: object, *, but: tuple[str, ...] = (), **more: object) -> str:
    """Return 32 hexadecimal digits for a plan and further inputs. `but`: fields that vary between two readings."""
    shown = plain(plan)
    compared = (
        {name: value for name, value in shown.items() if name not in but} if isinstance(shown, Mapping) else shown
    )
    text = json.dumps([compared, plain(more)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def check_confirmed(sent: str, now: str) -> None:
    """Raises `PlanChanged` if `sent` is not the value of the present plan, `now`."""
    if not hmac.compare_digest(sent.encode("utf-8", "replace"), now.encode()):
        raise PlanChanged(
            "the plan has changed since it was confirmed: nothing was done",
            hint="request the plan again, read it, and send its new value",
        )
