"""Login with a token, for browsers, and what its page needs: style, script, icon."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path

from fastapi import APIRouter, Request, Response
from starlette.responses import FileResponse, PlainTextResponse, RedirectResponse

from offsite.model.journal import noted
from offsite.reports.html_page import STYLE_FILE
from offsite.serve.browsers import COOKIE, LASTS_S
from offsite.serve.gate import GateRules
from offsite.serve.pages.jobs import Form
from offsite.serve.pages.page import page
from offsite.serve.tokens import OWNER, Caller, Tokens

router = APIRouter(include_in_schema=False)

_USED = (
    "This code is not valid, or not valid any more: each code begins one session. offsite serve prints the next code "
    "where it was started. If you did not use this code yourself, stop offsite serve: somebody else may do everything "
    "with the session."
)

_STATIC = Path(__file__).parent / "static"
_FILES = {
    "offsite.css": (STYLE_FILE, "text/css"),
    "offsite.js": (_STATIC / "offsite.js", "text/javascript"),
    "icon.svg": (_STATIC / "icon.svg", "image/svg+xml"),
}


@router.get("/login")
def form(request: Request, code: str = "") -> Response:
    """The login form; or a session, for the login address that a coordinator printed. A link from a foreign page logs
    in nobody. A token in the address does not log in: the token would stay in the history of the browser."""
    if not code or request.headers.get("sec-fetch-site", "none") not in {"same-origin", "none"}:
        return _login_page(request)
    if _uses_code(request, code):
        return _begun(request, OWNER)
    if request.state.caller.name:  # this browser used the address before
        return RedirectResponse("/", status_code=HTTPStatus.SEE_OTHER)
    return _login_page(request, _USED)


@router.post("/login")
def login(request: Request, form: Form) -> Response:
    word = form.get("token", "").strip()
    caller = OWNER if _uses_code(request, word) else _tokens_of(request.app.state.guarded).authenticate(word)
    if caller is None:
        return _login_page(request, _USED if _has_code(request) else "This token is not valid here.")
    return _begun(request, caller)


def _login_page(request: Request, problem: str = "") -> Response:
    status = HTTPStatus.UNAUTHORIZED if problem else HTTPStatus.OK
    return page(request, "login.html", status, problem=problem, has_code=_has_code(request))


def _has_code(request: Request) -> bool:
    return request.app.state.guarded.login_code is not None


def _uses_code(request: Request, code: str) -> bool:
    return _has_code(request) and request.app.state.guarded.login_code.use(code)


def _begun(request: Request, caller: Caller) -> Response:
    """The answer that starts a session."""
    guarded = request.app.state.guarded
    tokens = _tokens_of(guarded)
    noted("session", by=caller.name)
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


def _tokens_of(guarded: GateRules) -> Tokens:
    """The valid tokens: none if every caller may do everything."""
    return guarded.tokens() if guarded.tokens else Tokens(active=())


def _is_encrypted(request: Request) -> bool:
    """Whether the browser uses TLS: to the server, or to a proxy before the server, by the origin of the form."""
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
async def static(name: str) -> Response:
    if name not in _FILES:
        return PlainTextResponse("there is no such file", status_code=HTTPStatus.NOT_FOUND)
    file, kind = _FILES[name]
    return FileResponse(file, media_type=kind, headers={"Cache-Control": "max-age=3600"})


@router.get("/healthz")
async def healthz() -> Response:
    """Answered without a thread, so also if all threads are busy."""
    return PlainTextResponse("ok")
