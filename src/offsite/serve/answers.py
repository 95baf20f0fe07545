"""Results and errors as HTTP answers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from http import HTTPStatus

from starlette.responses import Response

from offsite.model.errors import (
    BackupNotFound,
    Bug,
    Conflict,
    Damaged,
    Denied,
    FormatTooNew,
    JobNotFound,
    KafkaUnavailable,
    NoRepository,
    NoSuchRestore,
    NoSuchRestorePoint,
    NotAllowed,
    OffsiteError,
    Refused,
    RepositoryNotFound,
    StoreUnavailable,
    TooManyJobs,
    UserError,
)
from offsite.model.plain import plain

JSON = "application/json"

_STATUS: tuple[tuple[type[OffsiteError], HTTPStatus], ...] = (
    (NoSuchRestorePoint, HTTPStatus.NOT_FOUND),
    (NoSuchRestore, HTTPStatus.NOT_FOUND),
    (BackupNotFound, HTTPStatus.NOT_FOUND),
    (JobNotFound, HTTPStatus.NOT_FOUND),
    (RepositoryNotFound, HTTPStatus.SERVICE_UNAVAILABLE),
    (FormatTooNew, HTTPStatus.SERVICE_UNAVAILABLE),
    (NoRepository, HTTPStatus.NOT_FOUND),
    (UserError, HTTPStatus.BAD_REQUEST),
    (TooManyJobs, HTTPStatus.TOO_MANY_REQUESTS),
    (NotAllowed, HTTPStatus.FORBIDDEN),
    (Conflict, HTTPStatus.CONFLICT),
    (Refused, HTTPStatus.CONFLICT),
    (Damaged, HTTPStatus.UNPROCESSABLE_ENTITY),
    (KafkaUnavailable, HTTPStatus.BAD_GATEWAY),
    (StoreUnavailable, HTTPStatus.SERVICE_UNAVAILABLE),
    (Denied, HTTPStatus.BAD_GATEWAY),
    (Bug, HTTPStatus.INTERNAL_SERVER_ERROR),
    (OffsiteError, HTTPStatus.UNPROCESSABLE_ENTITY),
)
"""The first matching class of an error. A refusal by a store or a cluster is no fault of the caller."""
STATUS_MEANINGS = {
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
"""What a status says about a request, for the description of the API."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """An error: `id` (see the reference of errors), a sentence, and the next step."""

    id: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemAnswer:
    error: Problem


def status_of(error: OffsiteError) -> HTTPStatus:
    return next(status for kind, status in _STATUS if isinstance(error, kind))


def answer(result: object, status: HTTPStatus = HTTPStatus.OK) -> Response:
    """The result of a use, in the form of `-o json`."""
    return Response(json.dumps(plain(result)), status_code=status, media_type=JSON)


def answer_error(error: OffsiteError) -> Response:
    return problem(status_of(error), id=error.id, message=error.message, hint=error.hint)


def problem(status: HTTPStatus, *, id: str, message: str, hint: str = "") -> Response:  # noqa: A002  # as in the JSON
    return answer(ProblemAnswer(error=Problem(id=id, message=message, hint=hint)), status)
