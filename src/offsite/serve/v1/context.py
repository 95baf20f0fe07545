"""Common parts of the routes: the site, the caller, the possible answers."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Header, Path, Query, Request

from offsite.model.bounds import MAX_OFFSET
from offsite.serve.answers import ProblemAnswer
from offsite.serve.guard.tokens import Caller
from offsite.serve.site import SOURCE, Site


def _site(request: Request) -> Site:
    site: Site = request.app.state.site
    return site


def _caller(request: Request) -> Caller:
    caller: Caller = request.state.caller
    return caller


TheSite = Annotated[Site, Depends(_site)]
TheCaller = Annotated[Caller, Depends(_caller)]
BackupName = Annotated[str, Path(description="Name of the backup.", max_length=255)]
CommitNumber = Annotated[int | None, Query(ge=0, le=MAX_OFFSET, description="As of this commit; default: the newest.")]
CheckpointId = Annotated[int, Path(ge=1, le=MAX_OFFSET, description="Id of the checkpoint.")]
TargetName = Annotated[
    str,
    Query(
        max_length=60, description=f"Name of a cluster of the coordinator (--target); `{SOURCE}` is the source cluster."
    ),
]
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

_WORDS = {
    400: "the request is wrong",
    401: "a token is needed",
    403: "the caller has no permission for this",
    404: "the object does not exist",
    408: "the body arrived too slowly",
    409: "refused by a guard, or another request was first",
    413: "the body is too large",
    421: "the server was called by an unknown host name",
    422: "stored data is damaged or cannot be used",
    429: "too many jobs run here, or too many requests of one caller",
    502: "the cluster did not answer, or denied it",
    503: "the store did not answer, or holds no repository",
}
PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": ProblemAnswer, "description": words} for status, words in _WORDS.items()
}
