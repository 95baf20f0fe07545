"""The application: routers, and answers for errors. Contains no decisions."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from offsite.model.errors import OffsiteError
from offsite.model.journal import failed, safe_line, safe_trace
from offsite.model.version import __version__
from offsite.serve import actuator
from offsite.serve.answers import answer_error, problem, status_of
from offsite.serve.gate import Gate, GateRules
from offsite.serve.pages import jobs as job_pages
from offsite.serve.pages import login, look
from offsite.serve.pages.page import page
from offsite.serve.site import Site
from offsite.serve.v1 import jobs, plans, read, restores

V1 = "/api/v1"
_PROBLEMS_MAX = 5


def make_app(site: Site, guarded: GateRules) -> Gate:
    """Make the coordinator as an ASGI application, behind its gate."""
    app = routes()
    app.state.site, app.state.guarded = site, guarded
    return Gate(app, guarded)


def routes() -> FastAPI:
    """Make the application with all routes; site and rules are in its `state`. The first request builds the route
    table, in a third of a second."""
    app = FastAPI(
        title="offsite",
        version=__version__,
        summary="Take, watch and restore backups of Kafka.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
    )
    for routes_module in (read, jobs, restores, plans):
        app.include_router(routes_module.router, prefix=V1)
    for prefix in actuator.PREFIXES:
        app.include_router(actuator.router, prefix=prefix)
    for routes_module in (look, job_pages, login):
        app.include_router(routes_module.router)
    app.exception_handler(OffsiteError)(_of_ours)
    app.exception_handler(RequestValidationError)(_invalid)
    app.exception_handler(HTTPException)(_http)
    app.exception_handler(Exception)(_answer_bug)
    return app


def _is_actuator(request: Request) -> bool:
    return request.url.path.startswith(actuator.PREFIXES)


def _is_page(request: Request) -> bool:
    return not request.url.path.startswith((V1, "/openapi.json"))


def _of_ours(request: Request, error: OffsiteError) -> Response:
    if _is_actuator(request):
        return actuator.answer_error(error)
    if not _is_page(request):
        return answer_error(error)
    return _problem_page(request, status_of(error), error.message, error.hint, error.id)


def _problem_page(request: Request, status: HTTPStatus, message: str, hint: str, problem_id: str) -> Response:
    return page(request, "problem.html", status, title=status.phrase, message=message, hint=hint, id=problem_id)


def _invalid(request: Request, error: RequestValidationError) -> Response:
    said = "; ".join(_said(detail) for detail in error.errors()[:_PROBLEMS_MAX])
    if _is_actuator(request):
        return actuator.answer_message(HTTPStatus.BAD_REQUEST, said)
    if _is_page(request):
        return _problem_page(request, HTTPStatus.BAD_REQUEST, said, "", "OFF-0202")
    return problem(HTTPStatus.BAD_REQUEST, id="OFF-0202", message=said, hint="see the API at /openapi.json")


def _said(detail: dict[str, object]) -> str:
    where = detail.get("loc", ())
    path = ".".join(str(part)[:60] for part in where) if isinstance(where, tuple | list) else ""
    return f"{path}: {detail.get('msg')}"


def _http(request: Request, error: HTTPException) -> Response:
    status = HTTPStatus(error.status_code)
    if _is_actuator(request):
        return actuator.answer_message(status, status.phrase)
    if _is_page(request) and "text/html" in request.headers.get("accept", ""):
        return _problem_page(
            request, status, "There is no such page, or the page does not accept this request.", "", "OFF-0202"
        )
    response = problem(status, id="OFF-0202", message=status.phrase, hint="see the API at /openapi.json")
    response.headers.update(error.headers or {})
    return response


def _answer_bug(_: Request, error: Exception) -> Response:
    failed("api", why=safe_line(error), trace=safe_trace(error))
    return JSONResponse(
        {"error": {"id": "OFF-0100", "message": "a mistake of offsite; see the log of the coordinator", "hint": ""}},
        status_code=HTTPStatus.INTERNAL_SERVER_ERROR,
    )
