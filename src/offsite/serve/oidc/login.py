"""A login at the identity provider: the authorization code flow with PKCE, state and nonce (OpenID Connect Core 1.0,
3.1; RFC 7636; RFC 9700).

A login that has begun is a signed cookie with a random seed. State, nonce and verifier are keyed hashes of the seed, so
a coordinator keeps nothing of logins that never end, and any coordinator with the same key can finish one. The state
binds the answer to the browser that began (no login as somebody else from a foreign page), the nonce binds the ID token
to it, and the verifier the code. A seed is used once.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from urllib.parse import urlencode

from offsite.kafka.net.http_exchange import HttpLimits
from offsite.model.clock import Clock
from offsite.model.untrusted.text import printable
from offsite.serve.oidc.id_token import BadIdToken, Claims, ExpectedToken, check_id_token, claim_texts
from offsite.serve.oidc.provider import LIMITS, NoLogin, Provider
from offsite.serve.oidc.settings import GroupRights, OidcSettings
from offsite.serve.sessions import Session, Sessions
from offsite.serve.tokens import Caller

LOGIN_COOKIE = "offsite_login"
LOGIN_LASTS_S = 600
_SEED_BYTES = 32
_USED_MAX = 10_000
_CODE_MAX = 4_096
_NAME_CHARS = 40
_GROUPS_TOLD = 20
_UNNAMED = re.compile(r"[^A-Za-z0-9._@-]")
_SHORT = 8
_AGAIN = "Log in again."


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunLogin:
    """`url`: where the browser logs in. `cookie`: of this login."""

    url: str
    cookie: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedLogin:
    """`name`: of the caller. `subject`: of the provider, for the journal."""

    name: str
    subject: str
    rights: GroupRights


class OidcLogin:
    """Logins at the provider of the present settings."""

    def __init__(
        self, settings: Callable[[], OidcSettings | None], sessions: Sessions, clock: Clock, limits: HttpLimits = LIMITS
    ) -> None:
        self._settings, self._sessions, self._clock, self._limits = settings, sessions, clock, limits
        self._used: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()
        self._provider: Provider | None = None

    @property
    def _now_s(self) -> int:
        return self._clock.now_ms() // 1000

    def place(self) -> str:
        """The provider for people; empty while the file of settings is invalid."""
        settings = self._settings()
        return settings.provider.place if settings is not None else ""

    def is_encrypted(self) -> bool:
        """Whether browsers reach this coordinator by TLS."""
        settings = self._settings()
        return settings is None or settings.provider.public_url.startswith("https://")

    def caller(self, session: Session) -> Caller | None:
        """Return the caller of a session of a group, by the present rights of the group."""
        settings = self._settings()
        rights = settings.rights_by_id(session.grant, now_s=self._now_s) if settings is not None else None
        if rights is None or not self._sessions.is_tied(session, rights.tie):
            return None
        return replace(rights.caller, name=session.name)

    def begin(self) -> BegunLogin:
        """Raises `NoLogin`."""
        provider = self._current()
        seed, begun_s = secrets.token_urlsafe(_SEED_BYTES), self._now_s
        challenge = hashlib.sha256(self._derived("verifier", seed).encode()).digest()
        query = {
            "response_type": "code",
            "client_id": provider.settings.client_id,
            "redirect_uri": provider.redirect_uri,
            "scope": " ".join(provider.settings.scopes),
            "state": self._derived("state", seed),
            "nonce": self._derived("nonce", seed),
            "code_challenge": base64.urlsafe_b64encode(challenge).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        text = f"{seed}|{begun_s}"
        url = _with_query(provider.discovered().authorization, query)
        return BegunLogin(url=url, cookie=f"{text}|{self._derived('login', text)}")

    def finish(self, answer: Mapping[str, str], cookie: str) -> FinishedLogin:
        """Return who logged in. `answer`: the query with which the provider sent the browser back. Raises `NoLogin`."""
        provider = self._current()
        seed = self._seed(cookie)
        if seed is None or not _is_same(answer.get("state", ""), self._derived("state", seed)):
            raise NoLogin(
                HTTPStatus.BAD_REQUEST,
                "This login was begun in another browser or window, or too long ago. Nobody was logged in. " + _AGAIN,
                why="the state is not of this browser",
            )
        if not self._use(seed):
            raise NoLogin(HTTPStatus.BAD_REQUEST, f"This login was finished before. {_AGAIN}", why="a used state")
        self._check_issuer(provider, answer)
        if "error" in answer:
            said = printable(answer["error"][:60])
            raise NoLogin(
                HTTPStatus.FORBIDDEN,
                f"The identity provider {provider.settings.place} refused this login ({said}).",
            )
        if not 0 < len(code := answer.get("code", "")) <= _CODE_MAX:
            raise NoLogin(HTTPStatus.BAD_REQUEST, f"The answer of the identity provider has no code. {_AGAIN}")
        token = provider.exchange(code, verifier=self._derived("verifier", seed))
        return self._person(provider, self._claims(provider, token, seed))

    def logout_url(self) -> str:
        """Return the address of the provider's own logout (OpenID Connect RP-Initiated Logout 1.0); empty: none."""
        provider = self._provider
        if provider is None or not (url := provider.end_session_url()):
            return ""
        back = f"{provider.settings.public_url}/login"
        return _with_query(url, {"client_id": provider.settings.client_id, "post_logout_redirect_uri": back})

    def _current(self) -> Provider:
        """The provider of the present settings."""
        settings = self._settings()
        if settings is None:
            raise NoLogin(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "The settings of the identity provider are not valid now: see the log of offsite serve.",
            )
        with self._lock:
            if self._provider is None or self._provider.settings != settings.provider:
                self._provider = Provider(settings.provider, self._clock, self._limits)
            return self._provider

    def _check_issuer(self, provider: Provider, answer: Mapping[str, str]) -> None:
        """Refuse an answer that another provider gave (mix-up, RFC 9207)."""
        expected, issuer = provider.settings.issuer, answer.get("iss")
        is_missing = issuer is None and provider.discovered().names_itself
        if is_missing or (issuer is not None and issuer != expected):
            raise NoLogin(
                HTTPStatus.BAD_REQUEST,
                f"The answer is not from {provider.settings.place}. Nobody was logged in. {_AGAIN}",
                why="the answer names another issuer, or none",
            )

    def _claims(self, provider: Provider, token: str, seed: str) -> Claims:
        expected = ExpectedToken(
            issuer=provider.settings.issuer,
            client_id=provider.settings.client_id,
            nonce=self._derived("nonce", seed),
        )
        try:
            return check_id_token(token, find_keys=provider.find_keys, expected=expected, now_s=self._now_s)
        except BadIdToken as error:
            raise NoLogin(
                HTTPStatus.BAD_GATEWAY,
                f"The identity provider's answer is not accepted: {error}. Nobody was logged in.",
            ) from error

    def _person(self, provider: Provider, claims: Claims) -> FinishedLogin:
        subject, name = str(claims["sub"]), caller_name(claims, provider.settings.name_claim)
        groups = _groups(claims, provider.settings.groups_claim)
        settings = self._settings()
        rights = settings.rights_of(groups, now_s=self._now_s) if settings is not None else None
        if rights is None:
            shown = printable(", ".join(groups[:_GROUPS_TOLD])) or "none"
            raise NoLogin(
                HTTPStatus.FORBIDDEN,
                f"{provider.settings.place} knows you as {name}, and none of your groups has rights here "
                f"(groups: {shown}). Nobody was logged in. Ask the administrator of this coordinator.",
                why=f"no group has rights; groups: {shown}",
                who=f"{name} sub={printable(subject)}",
            )
        return FinishedLogin(name=name, subject=subject, rights=rights)

    def _seed(self, cookie: str) -> str | None:
        """The seed of a login that this browser began, and that may still be finished."""
        text, _, signature = cookie.rpartition("|")
        if not _is_same(signature, self._derived("login", text)):
            return None
        seed, _, begun_s = text.partition("|")
        return seed if self._now_s - int(begun_s) < LOGIN_LASTS_S else None

    def _use(self, seed: str) -> bool:
        """Whether the seed was not used before. The oldest of many are forgotten: their codes are used up."""
        with self._lock:
            if seed in self._used:
                return False
            self._used[seed] = None
            if len(self._used) > _USED_MAX:
                self._used.popitem(last=False)
            return True

    def _derived(self, use: str, seed: str) -> str:
        return self._sessions.sign(f"oidc {use}", seed)


def caller_name(claims: Claims, name_claim: str) -> str:
    """Return the name of a person, for the journal: it begins as no name of a token does, and ends with a hash of
    issuer and subject, because people may choose their names, also that of somebody else."""
    chosen = claim_texts(claims, (name_claim,)) or (str(claims["sub"]),)
    shown = _UNNAMED.sub("_", chosen[0] if chosen else "")[:_NAME_CHARS]
    unique = hashlib.sha256(f"{claims['iss']}\0{claims['sub']}".encode()).hexdigest()[:_SHORT]
    return f"oidc:{shown}:{unique}"


def _groups(claims: Claims, path: tuple[str, ...]) -> tuple[str, ...]:
    """The groups of a person. An address of mail counts only if the provider has checked it."""
    if path == ("email",) and claims.get("email_verified") is not True:
        return ()
    return claim_texts(claims, path) or ()


def _with_query(url: str, query: Mapping[str, str]) -> str:
    return f"{url}{'&' if '?' in url else '?'}{urlencode(query)}"


def _is_same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())
