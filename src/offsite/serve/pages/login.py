"""Login and logout of browsers, by a token or at the identity provider, and what pages need: style, script, icon."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import APIRouter, Request, Response
from starlette.responses import FileResponse, PlainTextResponse, RedirectResponse

from offsite.model.journal import decided, noted
from offsite.serve.gate import GateRules, client_of, session_header
from offsite.serve.oidc.login import LOGIN_COOKIE, LOGIN_LASTS_S, FinishedLogin
from offsite.serve.oidc.provider import NoLogin
from offsite.serve.pages.jobs import Form
from offsite.serve.pages.page import page
from offsite.serve.pages.static_files import FILES
from offsite.serve.sessions import COOKIE
from offsite.serve.tokens import OWNER, Caller

router = APIRouter(include_in_schema=False)

_USED = (
    "This code is not valid, or not valid any more: each code begins one session. offsite serve prints the next code "
    "where it was started. If you did not use this code yourself, stop offsite serve: somebody else may do everything "
    "with the session."
)

_NO_PROVIDER = "This coordinator has no identity provider."
_WAY_BACK = "/login/oidc/done"


@router.get("/login")
def form(request: Request, code: str = "", out: str = "") -> Response:
    """The login form; or a session, for the login address that a coordinator printed. A link from a foreign page logs
    in nobody. A token in the address does not log in: the token would stay in the history of the browser."""
    if not code or request.headers.get("sec-fetch-site", "none") not in {"same-origin", "none"}:
        return _login_page(request, is_out=bool(out))
    if _uses_code(request, code):
        return _begun(request, OWNER, how="code")
    if request.state.caller.name:  # this browser used the address before
        return RedirectResponse("/", status_code=HTTPStatus.SEE_OTHER)
    return _login_page(request, _USED)


@router.post("/login")
def login(request: Request, form: Form) -> Response:
    word = form.get("token", "").strip()
    if _uses_code(request, word):
        return _begun(request, OWNER, how="code")
    caller = request.app.state.guarded.present_tokens.authenticate(word)
    if caller is None:
        return _login_page(request, _USED if _has_code(request) else "This token is not valid here.")
    return _begun(request, caller, how="token")


@router.get("/login/oidc")
def begin(request: Request) -> Response:
    """Send the browser to the identity provider."""
    if (oidc := request.app.state.guarded.oidc) is None:
        return _login_page(request, _NO_PROVIDER, HTTPStatus.NOT_FOUND)
    try:
        begun = oidc.begin()
    except NoLogin as error:
        return _refused(request, error)
    answer = RedirectResponse(begun.url, status_code=HTTPStatus.SEE_OTHER)
    answer.set_cookie(
        LOGIN_COOKIE,
        begun.cookie,
        max_age=LOGIN_LASTS_S,
        path=_WAY_BACK,
        httponly=True,
        samesite="lax",  # the way back begins at the provider
        secure=oidc.is_encrypted(),
    )
    return answer


@router.get(_WAY_BACK)
def finish(request: Request) -> Response:
    """Take the browser back from the identity provider. The answer is a page that leads on: a browser would not send
    the new cookie, which is for our pages only, on a redirect that began at the provider."""
    guarded = request.app.state.guarded
    if guarded.oidc is None:
        return _login_page(request, _NO_PROVIDER, HTTPStatus.NOT_FOUND)
    try:
        finished = guarded.oidc.finish(_once(request), request.cookies.get(LOGIN_COOKIE, ""))
    except NoLogin as error:
        return _refused(request, error)
    answer = page(request, "logged_in.html", person=finished.name)
    _start(request, answer, _session_of(guarded, finished))
    noted(
        "session",
        by=finished.name,
        how="oidc",
        sub=finished.subject,
        group=finished.rights.caller.name,
        **client_of(request.scope),
    )
    answer.delete_cookie(LOGIN_COOKIE, path=_WAY_BACK, httponly=True)
    return answer


def _once(request: Request) -> dict[str, str]:
    """The query of the answer. A name that comes twice is left out: readers may differ in which value counts."""
    names = [name for name, _ in request.query_params.multi_items()]
    return {name: value for name, value in request.query_params.items() if names.count(name) == 1}


def _session_of(guarded: GateRules, finished: FinishedLogin) -> str:
    return guarded.sessions.begin(
        finished.name,
        now_s=guarded.now_s,
        of=finished.rights.tie,
        grant=finished.rights.id,
        is_secure=guarded.oidc is not None and guarded.oidc.is_encrypted(),
    )


def _refused(request: Request, error: NoLogin) -> Response:
    note = request.state.refusals.note_of("login")
    if note is not None:
        decided(
            "no_session",
            how="oidc",
            who=error.who or None,
            why=error.why,
            **client_of(request.scope),
            then=note or None,
        )
    return _login_page(request, error.message, error.status)


def _login_page(
    request: Request, problem: str = "", status: HTTPStatus = HTTPStatus.UNAUTHORIZED, *, is_out: bool = False
) -> Response:
    guarded = request.app.state.guarded
    return page(
        request,
        "login.html",
        status if problem else HTTPStatus.OK,
        problem=problem,
        has_code=_has_code(request),
        has_tokens=guarded.has_tokens,
        provider="" if guarded.oidc is None else guarded.oidc.place(),
        is_out=is_out,
        logout_url=guarded.oidc.logout_url() if is_out and guarded.oidc else "",
    )


def _has_code(request: Request) -> bool:
    return request.app.state.guarded.login_code is not None


def _uses_code(request: Request, code: str) -> bool:
    return _has_code(request) and request.app.state.guarded.login_code.use(code)


def _begun(request: Request, caller: Caller, *, how: str) -> Response:
    """The answer that starts a session by a token or a code."""
    guarded = request.app.state.guarded
    noted("session", by=caller.name, how=how, **client_of(request.scope))
    answer = RedirectResponse("/", status_code=HTTPStatus.SEE_OTHER)
    tie = guarded.present_tokens.hash_of(caller.name)
    _start(
        request,
        answer,
        guarded.sessions.begin(caller.name, now_s=guarded.now_s, of=tie, is_secure=_is_encrypted(request)),
    )
    return answer


def _start(request: Request, answer: Response, cookie: str) -> None:
    """Set the cookie of a new session. A session that the browser had before ends."""
    guarded = request.app.state.guarded
    guarded.sessions.end(request.state.cookie, now_s=guarded.now_s)
    session = guarded.sessions.read(cookie, now_s=guarded.now_s)
    rest_s = guarded.sessions.rest_s(session, now_s=guarded.now_s)
    answer.headers.append("Set-Cookie", session_header(cookie, rest_s, is_secure=session.is_secure))


def _is_encrypted(request: Request) -> bool:
    """Whether the browser uses TLS: to the server, or to a proxy before the server, by the origin of the form."""
    return request.url.scheme == "https" or request.headers.get("origin", "").startswith("https://")


@router.post("/logout")
def logout(request: Request, _: Form) -> Response:
    """End the session, with all copies of its cookies. Somebody of the identity provider is told that the provider
    still knows the browser."""
    guarded = request.app.state.guarded
    session = guarded.sessions.end(request.state.cookie, now_s=guarded.now_s)
    if session is not None:
        noted("session_ended", by=session.name, **client_of(request.scope))
    is_of_provider = session is not None and session.grant and guarded.oidc is not None
    answer = RedirectResponse("/login?out=1" if is_of_provider else "/login", status_code=HTTPStatus.SEE_OTHER)
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return answer


@router.get("/static/{name}")
async def static(name: str) -> Response:
    if name not in FILES:
        return PlainTextResponse("there is no such file", status_code=HTTPStatus.NOT_FOUND)
    file, kind = FILES[name]
    return FileResponse(file, media_type=kind, headers={"Cache-Control": "max-age=3600"})


@router.get("/healthz")
async def healthz() -> Response:
    """Answered without a thread, so also if all threads are busy."""
    return PlainTextResponse("ok")
