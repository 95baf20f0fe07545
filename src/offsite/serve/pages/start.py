"""The start page of a coordinator with several repositories, and the same as JSON: one row for each, the worst first.
Reads nothing, and waits for nothing.
"""

from __future__ import annotations

from dataclasses import replace

from fastapi import APIRouter, Request, Response

from offsite.overview.several import SeveralStatus, describe_age, status_of_several, verdict_of_several
from offsite.serve.address import base_of
from offsite.serve.answers import answer
from offsite.serve.pages.page import page
from offsite.serve.scoped_site import scoped_reading

router = APIRouter()
_PROBLEMS_SHOWN = 3
_LOSSES_SHOWN = 5


def _status(request: Request) -> SeveralStatus:
    scope, watches = request.state.caller.scope, request.state.watches.values()
    for watch in watches:
        watch.renew()
    readings = [watch.reading() for watch in watches]
    seen = (scoped_reading(reading, scope) for reading in readings)
    several = status_of_several(reading for reading in seen if reading is not None)
    is_read = all(reading.status for reading in readings if scope.allows_repository(reading.name))
    return replace(several, safe=several.safe and is_read and bool(several.repositories))


@router.get("/", include_in_schema=False)
def start(request: Request) -> Response:
    status = _status(request)
    return page(
        request,
        "start.html",
        rows=status.repositories,
        verdict=verdict_of_several(status),
        lost=[row for row in status.repositories if row.losses],
        age_of=describe_age,
        base_of=base_of,
        problems_shown=_PROBLEMS_SHOWN,
        losses_shown=_LOSSES_SHOWN,
    )


@router.get("/api/v1/repositories", response_model=SeveralStatus)
def repositories(request: Request) -> Response:
    """Are all repositories safe? The verdict for each, the worst first, and how old it is."""
    return answer(_status(request))
