"""The gate of all requests: an ASGI application around another, before any route.

In this order the gate checks: the host name, the origin of the sending page, the caller, the required role, size
and time of the body. A refusal costs almost nothing. A caller of a shared coordinator has a limit of concurrent
requests, and of lines in the journal. Changes are recorded in the journal, with their outcome.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from offsite.model.clock import Clock, SystemClock
from offsite.model.journal import noted
from offsite.model.units import KIB, MIB
from offsite.serve.address import Address
from offsite.serve.answers import problem
from offsite.serve.browsers import Hosts, LoginCode
from offsite.serve.oidc.login import OidcLogin
from offsite.serve.sessions import COOKIE, Session, Sessions
from offsite.serve.tokens import SAFE, AccessRole, Caller, Requirement, Tokens, requirement_at

REQUESTS_AT_ONCE = 16
"""Concurrent requests of one caller to one repository, of forty threads in the server. A browser sends six."""
REFUSALS_LOGGED_MAX = 20
"""Journal lines about refused requests of one caller in a minute: a full log file is rotated, so a caller with
unlimited lines could erase the traces of earlier requests."""

BODY_MAX = MIB
LOGIN_MAX = 16 * KIB
"""Bytes of the body of an anonymous request."""
BODY_S = 10.0
"""Seconds within which a body must arrive."""
PIECE_BYTES = 256 * KIB
_FORWARDED_MAX = 100
_TOLD_MAX = 400
"""Characters of a path in the journal: more than the longest route, so that no long name hides the rest of a path."""
_LOCAL_CALLER = Caller(name="this machine", role=AccessRole.RESTORE, records=True)
_STRANGER = Caller(name="", role=AccessRole.WATCH)
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # without the header a browser sends the origin "null" for a form
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_REFUSED = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
_TURN_HINT = "wait for an answer before you send more requests"
_HOST_HINT = "use a host name given with --allow-host, or 127.0.0.1 from this machine"


class RequestCounter:
    """The number of running requests of every caller in each repository: a request may name any repository, so nothing
    is kept of requests that are over."""

    def __init__(self) -> None:
        self._under_way: Counter[str] = Counter()

    def take(self, name: str) -> bool:
        """Return whether one more request of `name` may run now; an accepted request must be given back."""
        if self._under_way[name] >= REQUESTS_AT_ONCE:
            return False
        self._under_way[name] += 1
        return True

    def give_back(self, name: str) -> None:
        self._under_way[name] -= 1
        if not self._under_way[name]:
            del self._under_way[name]

    def __len__(self) -> int:
        return len(self._under_way)


class RefusalLog:
    """Limits the journal lines about refused requests."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._told: dict[str, tuple[int, int]] = {}

    def note_of(self, name: str) -> str | None:
        """Return an addition to the line, empty: none; None: no line."""
        minute = int(self._clock.monotonic_s() // 60)
        before, count = self._told.get(name, (minute, 0))
        count = count + 1 if before == minute else 1
        self._told[name] = (minute, count)
        if count > REFUSALS_LOGGED_MAX:
            return None
        return "further refusals of this minute are not logged" if count == REFUSALS_LOGGED_MAX else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRules:
    """The rules of the gate. `tokens` None: every caller on the local machine may do everything. `read_only`: no caller
    may change anything. `login_code`: starts a session of the owner, if there are no other tokens. `oidc`: logins at an
    identity provider."""

    hosts: Hosts
    sessions: Sessions
    tokens: Callable[[], Tokens] | None
    read_only: bool
    login_code: LoginCode | None = None
    oidc: OidcLogin | None = None
    clock: Clock = field(default_factory=SystemClock)

    @property
    def has_tokens(self) -> bool:
        """Whether the login page asks for a token."""
        return (
            self.oidc is None
            or self.login_code is not None
            or (self.tokens is not None and bool(self.present_tokens.active))
        )

    @property
    def present_tokens(self) -> Tokens:
        """The valid tokens; none if every caller may do everything."""
        return self.tokens().at(self.now_s) if self.tokens else Tokens(active=())

    @property
    def now_s(self) -> int:
        return self.clock.now_ms() // 1000

    def caller_of(self, session: Session) -> Caller | None:
        """Return the caller of a session, by present rights; None: what its rights rested on is gone."""
        if session.grant:
            return self.oidc.caller(session) if self.oidc else None
        tokens = self.present_tokens
        if not self.sessions.is_tied(session, tokens.hash_of(session.name)):
            return None
        return tokens.find_caller(session.name)


class RefusedRequest(Exception):  # an answer, not a bug
    """The answer to a refused request."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.status_code)
        self.response = response


def _path_alone(scope: Scope) -> Address | None:
    """The address where a coordinator has one repository; None: routes take a line break at the end for the end, and
    the rules do not, so such a path has two readings."""
    return None if scope["path"].endswith("\n") else Address(path=scope["path"])


class Gate:
    """Passes requests to `app`, with `caller`, `cookie`, `address` and `refusals` in its state."""

    def __init__(
        self, app: ASGIApp, guarded: GateRules, *, find: Callable[[Scope], Address | None] = _path_alone
    ) -> None:
        """`find`: the address of a request, before any rule is applied; None for none."""
        self._app, self._guarded, self._find = app, guarded, find
        self._turns, self._lines = RequestCounter(), RefusalLog(guarded.clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        address = self._find(scope)
        requirement = requirement_at(scope["method"], address)
        answer = _Answer(send, is_private=requirement.role is not None)
        try:
            body = await self._checked(scope, receive, requirement, address)
            answer.cookie = self._renewed_cookie(scope)
            await self._let_through(scope, _replayed(body, receive), answer)
        except RefusedRequest as refusal:
            await refusal.response(scope, receive, answer)
        finally:
            self._tell(scope, requirement, answer.status)

    async def _let_through(self, scope: Scope, receive: Receive, answer: Send) -> None:
        """Run the request. Raises `RefusedRequest` if too many requests of the caller run."""
        name, repository = scope["state"]["caller"].name, scope["state"]["address"].repository
        turns_of = f"{name} in {repository}"  # a repository that hangs takes no turns in the others
        if name and not self._turns.take(turns_of):
            raise _refused(
                HTTPStatus.TOO_MANY_REQUESTS, f"{REQUESTS_AT_ONCE} requests of {name} are being answered", _TURN_HINT
            )
        try:
            await self._app(scope, receive, answer)
        finally:
            if name:
                self._turns.give_back(turns_of)

    def _tell(self, scope: Scope, requirement: Requirement, status: int) -> None:
        is_refused = status in _REFUSED
        if not requirement.changes and not is_refused:
            return
        by = scope.get("state", {}).get("caller", _STRANGER).name or "a stranger"
        note = self._lines.note_of(by) if is_refused else ""
        if note is not None:
            request = f"{scope['method']} {scope['path'][:_TOLD_MAX]}"
            origin = client_of(scope) if is_refused else {}
            noted("asked", by=by, what=request, answer=status, **origin, then=note or None)

    async def _checked(
        self, scope: Scope, receive: Receive, requirement: Requirement, address: Address | None
    ) -> bytes:
        """Return the body of an accepted request. Raises `RefusedRequest`."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not self._guarded.hosts.allow(host):
            raise _refused(HTTPStatus.MISDIRECTED_REQUEST, "this server does not have that host name", _HOST_HINT)
        if "transfer-encoding" in headers and "content-length" in headers:
            raise _ambiguous()
        has_effect = scope["method"] not in SAFE or requirement.is_more_than_reading
        if has_effect and not self._is_of_ours(headers, host):
            raise _refused(
                HTTPStatus.FORBIDDEN, "the request came from a page of another server", "use the pages of this server"
            )
        if address is None:
            raise _refused(HTTPStatus.BAD_REQUEST, "this path has two readings", "send it without dots and encoding")
        self._admit(scope, headers, requirement, address)
        return await _body(headers, receive, most=BODY_MAX if requirement.role else LOGIN_MAX)

    def _admit(self, scope: Scope, headers: Headers, requirement: Requirement, address: Address) -> None:
        cookie = _cookie(headers)
        caller = self._caller(headers, cookie)
        scope.setdefault("state", {}).update(
            caller=caller or _STRANGER, cookie=cookie, address=address, refusals=self._lines
        )
        if requirement.role is not None and caller is None:
            raise _unknown(scope)
        if caller is not None and not caller.may(requirement):
            raise _lacking(caller, requirement)
        if requirement.changes and (self._guarded.read_only or address.read_only):
            subject = f"repository {address.repository}" if address.read_only else "this coordinator"
            raise _refused(
                HTTPStatus.FORBIDDEN,
                f"{subject} is read-only",
                "it was started so: use another coordinator",
            )

    def _caller(self, headers: Headers, cookie: str) -> Caller | None:
        if self._guarded.tokens is None:
            return _LOCAL_CALLER
        tokens = self._guarded.present_tokens
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return tokens.authenticate(token.strip())
        session = self._guarded.sessions.read(cookie, now_s=self._guarded.now_s) if cookie else None
        return self._guarded.caller_of(session) if session else None

    def _renewed_cookie(self, scope: Scope) -> str:
        """The header that gives a browser in use a newer cookie; empty: none. What a page asks for by itself, such as
        the events of a job, is no use."""
        headers, state = Headers(scope=scope), scope["state"]
        if not state["cookie"] or headers.get("sec-fetch-mode", "navigate") != "navigate":
            return ""
        sessions, now_s = self._guarded.sessions, self._guarded.now_s
        session = sessions.read(state["cookie"], now_s=now_s)
        if session is None or self._guarded.caller_of(session) != state["caller"]:
            return ""
        cookie = sessions.renewed(session, now_s=now_s)
        return (
            session_header(cookie, sessions.rest_s(session, now_s=now_s), is_secure=session.is_secure) if cookie else ""
        )

    def _is_of_ours(self, headers: Headers, host: str) -> bool:
        """Whether the request comes from a page of this server: browsers send the origin, other programs do not."""
        origin = headers.get("origin")
        if origin is not None and not self._guarded.hosts.allow_origin(origin, host):
            return False
        return headers.get("sec-fetch-site", "none") in {"same-origin", "none"}


class _Answer:
    """Adds the common headers to the answer; remembers the status."""

    def __init__(self, send: Send, *, is_private: bool) -> None:
        self._send, self._is_private = send, is_private
        self.status, self.cookie = 0, ""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
            if self._is_private:
                headers["Cache-Control"] = "no-store"
            headers.setdefault("Cache-Control", "no-store")
            if self.cookie and "set-cookie" not in headers:
                headers.append("Set-Cookie", self.cookie)
        body, at = message.get("body", b""), 0
        while len(body) - at > PIECE_BYTES:  # so that the request runs until the client has read the answer
            await self._send({"type": message["type"], "body": body[at : at + PIECE_BYTES], "more_body": True})
            at += PIECE_BYTES
        await self._send({**message, "body": body[at:]} if at else message)


async def _body(headers: Headers, receive: Receive, *, most: int) -> bytes:
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdecimal()) or int(length[:20]) > most:
        raise _too_large(most)
    try:
        async with asyncio.timeout(BODY_S):
            return await _read(receive, most=most)
    except TimeoutError:
        raise _refused(HTTPStatus.REQUEST_TIMEOUT, f"the body took more than {BODY_S:.0f} s", "send it again") from None


async def _read(receive: Receive, *, most: int) -> bytes:
    parts, size, is_more = [], 0, True
    while is_more:
        message = await receive()
        if message["type"] == "http.disconnect":
            break
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > most:
            raise _too_large(most)
        is_more = message.get("more_body", False)
    return b"".join(parts)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Replay the body, which was read already; then receive from the client."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return pending.pop() if pending else await receive()

    return again


def session_header(cookie: str, rest_s: int, *, is_secure: bool) -> str:
    """Return the value of the header that sets the cookie of a session."""
    return f"{COOKIE}={cookie}; Max-Age={rest_s}; Path=/; HttpOnly; SameSite=strict{'; Secure' if is_secure else ''}"


def client_of(scope: Scope) -> dict[str, str]:
    """Return where a request comes from, for the journal. `forwarded_for`: what a proxy, or the client itself, says."""
    client, said = scope.get("client"), Headers(scope=scope).get("x-forwarded-for", "")
    shown = {"from": str(client[0])} if client else {}
    return shown | ({"forwarded_for": said[:_FORWARDED_MAX]} if said else {})


def _cookie(headers: Headers) -> str:
    try:
        cookie = SimpleCookie(headers.get("cookie", "")[:4096]).get(COOKIE)
    except CookieError:
        return ""
    return cookie.value if cookie else ""


def _unknown(scope: Scope) -> RefusedRequest:
    request = Request(scope)
    if scope["method"] in SAFE and "text/html" in request.headers.get("accept", ""):
        return RefusedRequest(RedirectResponse("/login", status_code=HTTPStatus.SEE_OTHER))
    refusal = _refused(
        HTTPStatus.UNAUTHORIZED, "a token is needed", "send it as Authorization: Bearer TOKEN, or log in at /login"
    )
    refusal.response.headers["WWW-Authenticate"] = "Bearer"
    return refusal


def _lacking(caller: Caller, requirement: Requirement) -> RefusedRequest:
    """The refusal of a known caller, which says what the line of the token has to be."""
    needed = replace(
        caller, role=max(caller.role, requirement.role or caller.role), records=caller.records or requirement.records
    )
    right = f"{'records need' if requirement.records else 'the request needs the role'} {needed.rights}"
    return _refused(
        HTTPStatus.FORBIDDEN,
        f"{caller.name} has no permission for this: {right}",
        f"{_needed_line(needed)} (now: {caller.rights}{caller.limits}); ask the administrator of this coordinator",
    )


def _needed_line(caller: Caller) -> str:
    if caller.name.startswith("oidc:"):
        return f"the file of --oidc has to give one of your groups: role: {caller.rights}"
    line = f"{caller.name} {caller.rights}{caller.limits} sha256:..."
    return f"the token file has to say: {line}, with the hash that is there"


def _too_large(most: int) -> RefusedRequest:
    return _refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body may have at most {most} bytes", "send less")


def _ambiguous() -> RefusedRequest:
    """A proxy may have used the other length, and may take the rest for the next request."""
    refusal = _refused(
        HTTPStatus.BAD_REQUEST, "the request gives the length of the body in two ways", "send one of the two headers"
    )
    refusal.response.headers["Connection"] = "close"
    return refusal


def _refused(status: HTTPStatus, message: str, hint: str) -> RefusedRequest:
    return RefusedRequest(problem(status, id="OFF-1704", message=message, hint=hint))
