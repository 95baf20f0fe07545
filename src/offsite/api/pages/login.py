"""Logging in with a token, for browsers; and what every page needs: its style, its script, its sign."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path

from fastapi import APIRouter, Request, Response
from starlette.responses import FileResponse, PlainTextResponse, RedirectResponse

from offsite.api.guard.gate import Guarded
from offsite.api.guard.sessions import COOKIE, LASTS_S
from offsite.api.guard.tokens import Tokens
from offsite.api.pages.act import Form
from offsite.api.pages.templates import page
from offsite.services.reports.look import STYLE_FILE

router = APIRouter(include_in_schema=False)

_STATIC = Path(__file__).parent / "static"
_FILES = {
    "offsite.css": (STYLE_FILE, "text/css"),
    "offsite.js": (_STATIC / "offsite.js", "text/javascript"),
    "icon.svg": (_STATIC / "icon.svg", "image/svg+xml"),
}


@router.get("/login")
def form(request: Request, token: str = "") -> Response:
    """The form; or the session itself, where somebody opened the address that a coordinator told as it started. A page
    of somebody else's that leads here logs nobody in."""
    if token and request.headers.get("sec-fetch-site", "none") in {"same-origin", "none"}:
        return _begun(request, token)
    return page(request, "login.html", problem="")


@router.post("/login")
def login(request: Request, form: Form) -> Response:
    return _begun(request, form.get("token", "").strip())


def _begun(request: Request, token: str) -> Response:
    """The answer that begins a session."""
    guarded = request.app.state.guarded
    tokens = _tokens_of(guarded)
    caller = tokens.caller(token)
    if caller is None:
        return page(request, "login.html", HTTPStatus.UNAUTHORIZED, problem="This is no token that counts here.")
    answer = RedirectResponse("/", status_code=HTTPStatus.SEE_OTHER)
    answer.set_cookie(
        COOKIE,
        guarded.sessions.begin(caller.name, now_s=guarded.clock.now_ms() // 1000, of=tokens.hash_of(caller.name)),
        max_age=LASTS_S,
        httponly=True,
        samesite="strict",
        secure=_is_encrypted(request),
    )
    return answer


def _tokens_of(guarded: Guarded) -> Tokens:
    """The tokens that count here: none where everybody may do everything."""
    return guarded.tokens() if guarded.tokens else Tokens(known=())


def _is_encrypted(request: Request) -> bool:
    """Whether the browser talks TLS: to us, or to a proxy before us, as the origin of its form says."""
    return request.url.scheme == "https" or request.headers.get("origin", "").startswith("https://")


@router.post("/logout")
def logout(request: Request, _: Form) -> Response:
    guarded = request.app.state.guarded
    tokens = _tokens_of(guarded)
    guarded.sessions.end(request.state.cookie, now_s=guarded.clock.now_ms() // 1000, of=tokens.hash_of)
    answer = RedirectResponse("/login", status_code=HTTPStatus.SEE_OTHER)
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return answer


@router.get("/static/{name}")
def static(name: str) -> Response:
    if name not in _FILES:
        return PlainTextResponse("there is no such file", status_code=HTTPStatus.NOT_FOUND)
    file, kind = _FILES[name]
    return FileResponse(file, media_type=kind, headers={"Cache-Control": "max-age=3600"})


@router.get("/healthz")
def healthz() -> Response:
    return PlainTextResponse("ok")
