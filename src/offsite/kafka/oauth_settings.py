"""The settings of Kafka users about OAUTHBEARER → `TokenSource`, by the names of Kafka's Java client (KIP-768,
KIP-1139, KIP-1258), of its JAAS line, and of librdkafka; and offsite's own names for tokens from files and commands.

A setting wins over the option of the JAAS line, and an assertion over a secret, as in Kafka. Keys and templates are
read here, once; a file with a token or with a signed assertion is read anew where and when it is needed, because others
replace such files.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from offsite.kafka import aws_login
from offsite.kafka.config import BEARER_GRANT, ClientAssertion, TlsConfig, TokenEndpoint, TokenSource
from offsite.kafka.security_settings import ClientSettings, read_jaas, read_tls, read_trusted
from offsite.model.machine import is_loopback
from offsite.model.secret import Secret

_URL = "sasl.oauthbearer.token.endpoint.url"
_RETRIEVER = "sasl.oauthbearer.jwt.retriever.class"
_HANDLER = "sasl.login.callback.handler.class"
_GRANT = "sasl.oauthbearer.grant.type"
_METHOD = "sasl.oauthbearer.method"
_EXTENSIONS = "sasl.oauthbearer.extensions"
_SCOPE = "sasl.oauthbearer.scope"
_CLIENT_ID = ("sasl.oauthbearer.client.credentials.client.id", "sasl.oauthbearer.client.id")
_CLIENT_SECRET = ("sasl.oauthbearer.client.credentials.client.secret", "sasl.oauthbearer.client.secret")
_HTTPS_CA = ("https.ca.location", "https.ca.pem")
_ASSERTION = "sasl.oauthbearer.assertion."
_KEY_FILE, _KEY_PEM = f"{_ASSERTION}private.key.file", f"{_ASSERTION}private.key.pem"
_ASSERTION_FILE = f"{_ASSERTION}file"
_TEMPLATE = (f"{_ASSERTION}template.file", f"{_ASSERTION}jwt.template.file")
_CLAIMS = {claim: f"{_ASSERTION}claim.{claim}" for claim in ("aud", "iss", "sub")}
_LOGIN = "sasl.login."
OAUTH_SETTINGS = frozenset(
    [
        _URL,
        _RETRIEVER,
        _HANDLER,
        _GRANT,
        _METHOD,
        _EXTENSIONS,
        _SCOPE,
        *_CLIENT_ID,
        *_CLIENT_SECRET,
        *_HTTPS_CA,
        *_TEMPLATE,
        *_CLAIMS.values(),
        _KEY_FILE,
        _KEY_PEM,
        _ASSERTION_FILE,
        f"{_ASSERTION}private.key.passphrase",
        f"{_ASSERTION}algorithm",
        f"{_ASSERTION}claim.exp.seconds",
        f"{_ASSERTION}claim.nbf.seconds",
        f"{_ASSERTION}claim.jti.include",
        "sasl.oauthbearer.header.urlencode",
        "sasl.oauthbearer.sub.claim.name",  # what Kafka's client reads out of a token, for its logs alone
        "sasl.oauthbearer.scope.claim.name",
        f"{_LOGIN}connect.timeout.ms",
        f"{_LOGIN}read.timeout.ms",
        f"{_LOGIN}retry.backoff.ms",
        f"{_LOGIN}retry.backoff.max.ms",
        f"{_LOGIN}refresh.window.factor",
        f"{_LOGIN}refresh.window.jitter",
        f"{_LOGIN}refresh.min.period.seconds",
        f"{_LOGIN}refresh.buffer.seconds",
        "offsite.oauth.token",
        "offsite.oauth.token.file",
        "offsite.oauth.token.command",
    ]
)
OAUTH_KEY_FILES = frozenset({_KEY_FILE, _ASSERTION_FILE, "offsite.oauth.token.file"})
_FILE_URL = "file://"
_SOURCE_HINT = f"set {_URL} with a client id and secret, or offsite.oauth.token.file, or offsite.oauth.token.command"
_CREDENTIALS_HINT = f'write clientId="…" clientSecret="…" into sasl.jaas.config, or set {_CLIENT_ID[0]} and …secret'
_RETRIEVERS = ("DefaultJwtRetriever", "ClientCredentialsJwtRetriever", "JwtBearerJwtRetriever", "FileJwtRetriever")
_EXTENSION_OPTION = "extension_"
_EXTENSION_NAME = re.compile("[A-Za-z]+")
_EXTENSION_VALUE = re.compile(r"[\x21-\x7E \t\r\n]+")  # RFC 7628, 3.1, as Kafka checks it


def read_token_source(settings: ClientSettings) -> TokenSource:
    """Read where tokens come from. Raises `BadKafkaConfig` with file and line."""
    options = read_jaas(settings, "OAUTHBEARER")
    if settings.get(_HANDLER).endswith(f".{aws_login.TOKEN_HANDLER}"):
        return TokenSource(aws=settings.placed("sasl.jaas.config", lambda: aws_login.aws_login(options)))
    extensions = tuple(sorted(dict(_extensions(settings, options)).items()))
    url = settings.get(_URL)
    if static := settings.secret("offsite.oauth.token"):
        return TokenSource(static=static, extensions=extensions)
    if command := settings.get("offsite.oauth.token.command"):
        return TokenSource(command=tuple(shlex.split(command)), extensions=extensions)
    if path := settings.get("offsite.oauth.token.file") or url.removeprefix(_FILE_URL) * url.startswith(_FILE_URL):
        return TokenSource(file=path, extensions=extensions)
    if not url:
        raise settings.bad_setting("sasl.mechanism", "OAUTHBEARER needs a token source", hint=_SOURCE_HINT)
    return TokenSource(endpoint=_endpoint(settings, url, options), extensions=extensions)


def oauth_warnings(settings: ClientSettings, source: TokenSource) -> Iterator[str]:
    """Yield a line for each setting that is unsafe, or says what offsite does not do."""
    handler = settings.get(_HANDLER)
    if handler and source.aws is None and not handler.endswith(".OAuthBearerLoginCallbackHandler"):
        yield settings.located(_HANDLER, f"offsite has no {handler}, and gets tokens as the other settings say")
    if source.endpoint is None:
        return
    parts = urlsplit(source.endpoint.url)
    if parts.scheme == "https" and not source.endpoint.tls.check_hostname:
        yield settings.located(
            "sasl.jaas.config",
            "the host name of the token endpoint is not checked (ssl.endpoint.identification.algorithm): anybody with "
            f"a certificate of that authority can pose as {parts.hostname}, and gets the client's secret",
        )
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        yield settings.located(
            _URL, f"the client's secret and its tokens go over the network to {parts.hostname} unencrypted: use https"
        )


def _extensions(settings: ClientSettings, options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the extensions of both ways to write them: `extension_NAME="…"` in the JAAS line, librdkafka's list."""
    in_jaas = {
        name.removeprefix(_EXTENSION_OPTION): value
        for name, value in options.items()
        if name.startswith(_EXTENSION_OPTION)
    }
    listed = [part.partition("=") for part in settings.get(_EXTENSIONS).split(",") if part.strip()]
    for place, extensions in (
        ("sasl.jaas.config", in_jaas),
        (_EXTENSIONS, {name.strip(): value.strip() for name, _, value in listed}),
    ):
        for name, value in extensions.items():
            if name == "auth" or not _EXTENSION_NAME.fullmatch(name) or not _EXTENSION_VALUE.fullmatch(value):
                raise settings.bad_setting(
                    place,
                    f"the SASL extension {name[:100]!r} is none",
                    hint="names have letters only, auth is taken, and values are not empty and of ASCII",
                )
            yield name, value


def _endpoint(settings: ClientSettings, url: str, options: Mapping[str, str]) -> TokenEndpoint:
    _check_url(settings, url)
    is_bearer = _is_bearer(settings)
    assertion = _assertion(settings)
    client_id = settings.get(*_CLIENT_ID) or options.get("clientId", "").strip()
    secret = settings.get(*_CLIENT_SECRET) or options.get("clientSecret", "").strip()
    if assertion is not None and secret and not _comes_first(assertion, is_bearer=is_bearer):
        assertion = None
    if assertion is None and is_bearer:
        raise settings.bad_setting(_URL, f"the grant {BEARER_GRANT} needs an assertion", hint=f"set {_KEY_FILE}")
    if assertion is None and not (client_id and secret):
        raise settings.bad_setting(
            _URL, "the token endpoint needs a client id and a secret, or an assertion", hint=_CREDENTIALS_HINT
        )
    return TokenEndpoint(
        url=url,
        client_id=client_id,
        client_secret=Secret(secret) if assertion is None else None,
        scope=settings.get(_SCOPE) or options.get("scope", "").strip(),
        assertion=assertion,
        is_bearer=is_bearer,
        encodes_header=_flag(settings, "sasl.oauthbearer.header.urlencode"),
        tls=_tls(settings, options),
        connect_timeout_s=settings.milliseconds(f"{_LOGIN}connect.timeout.ms", default=10_000) / 1000,
        read_timeout_s=settings.milliseconds(f"{_LOGIN}read.timeout.ms", default=10_000) / 1000,
        retry_s=settings.milliseconds(f"{_LOGIN}retry.backoff.ms", default=100) / 1000,
        retry_max_s=settings.milliseconds(f"{_LOGIN}retry.backoff.max.ms", default=10_000) / 1000,
        refresh_factor=_number(settings, f"{_LOGIN}refresh.window.factor", 0.8, lowest=0.5, highest=1.0),
        refresh_jitter=_number(settings, f"{_LOGIN}refresh.window.jitter", 0.05, lowest=0.0, highest=0.25),
        refresh_min_s=_number(settings, f"{_LOGIN}refresh.min.period.seconds", 60, lowest=0, highest=900),
        refresh_buffer_s=_number(settings, f"{_LOGIN}refresh.buffer.seconds", 300, lowest=0, highest=3600),
    )


def _check_url(settings: ClientSettings, url: str) -> None:
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in {"https", "http"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable:
        raise settings.bad_setting(_URL, "not a URL of https, http or file", hint="write it as https://host/path")
    if parts.username is not None or parts.password is not None:
        raise settings.bad_setting(_URL, "a URL with a password would be printed", hint=_CREDENTIALS_HINT)


def _is_bearer(settings: ClientSettings) -> bool:
    """Whether the assertion is the grant. The retriever is named by a class of Kafka, the grant by librdkafka."""
    retriever = settings.get(_RETRIEVER).rpartition(".")[2] or _RETRIEVERS[0]
    if retriever not in _RETRIEVERS:
        raise settings.bad_setting(
            _RETRIEVER, f"offsite has no {retriever[:100]}", hint=f"one of {', '.join(_RETRIEVERS)}"
        )
    if retriever == "FileJwtRetriever":
        raise settings.bad_setting(_RETRIEVER, f"{retriever} needs a file:// URL in {_URL}")
    settings.choice(_METHOD, ("DEFAULT", "OIDC"), "OIDC")
    grant = settings.get(_GRANT) or "client_credentials"
    if grant not in {"client_credentials", BEARER_GRANT}:
        raise settings.bad_setting(_GRANT, f"neither client_credentials nor {BEARER_GRANT}")
    return grant == BEARER_GRANT or retriever == "JwtBearerJwtRetriever"


def _assertion(settings: ClientSettings) -> ClientAssertion | None:
    if file := settings.get(_ASSERTION_FILE):
        return ClientAssertion(file=file)
    key = settings.get(_KEY_PEM) or (settings.get(_KEY_FILE) and _text(settings, _KEY_FILE))
    if not key:
        if named := next((name for name in (*_CLAIMS.values(), *_TEMPLATE) if settings.get(name)), ""):
            raise settings.bad_setting(named, "a client assertion needs a key", hint=f"set {_KEY_FILE}")
        return None
    return ClientAssertion(
        key_pem=Secret(key),
        key_password=settings.secret(f"{_ASSERTION}private.key.passphrase"),
        algorithm=settings.choice(f"{_ASSERTION}algorithm", ("RS256", "ES256"), "RS256"),
        template=_template(settings),
        claims=tuple((claim, settings.get(name)) for claim, name in _CLAIMS.items() if settings.get(name)),
        lifetime_s=int(_number(settings, f"{_ASSERTION}claim.exp.seconds", 300, lowest=1, highest=86_400)),
        backdated_s=int(_number(settings, f"{_ASSERTION}claim.nbf.seconds", 60, lowest=0, highest=3600)),
        has_id=_flag(settings, f"{_ASSERTION}claim.jti.include"),
    )


def _comes_first(assertion: ClientAssertion, *, is_bearer: bool) -> bool:
    """Whether Kafka's client prefers the assertion to a client secret that is set as well: a key without an issuer may
    be a remnant."""
    return is_bearer or bool(assertion.file) or "iss" in dict(assertion.claims)


def _template(settings: ClientSettings) -> str:
    name = next((name for name in _TEMPLATE if settings.get(name)), "")
    if not name:
        return ""
    text = _text(settings, name)
    try:
        parts = json.loads(text)
        is_template = isinstance(parts, dict) and all(
            isinstance(parts.get(part, {}), dict) for part in ("header", "payload")
        )
    except (ValueError, RecursionError):
        is_template = False
    if not is_template:
        raise settings.bad_setting(name, "not a JSON object with the objects header and payload")
    return text


def _text(settings: ClientSettings, name: str) -> str:
    try:
        return settings.read_file(name).decode()
    except UnicodeDecodeError:
        raise settings.bad_setting(name, "not a text file (is the key in PEM format?)") from None


def _tls(settings: ClientSettings, options: Mapping[str, str]) -> TlsConfig:
    """What proves the endpoint's identity: the JAAS line's `ssl.*` alone, as in Kafka; or librdkafka's `https.ca.*`
    alone; else the machine's trust store and, beside it, the one for brokers."""
    if any(name.startswith("ssl.") for name in options):
        return read_tls(settings.nested("sasl.jaas.config", options))
    if settings.has(*_HTTPS_CA):
        return TlsConfig(ca_pem=settings.get("https.ca.pem") or _text(settings, "https.ca.location"))
    return TlsConfig(ca_pem=read_trusted(settings), trusts_machine=True)


def _flag(settings: ClientSettings, name: str) -> bool:
    return settings.choice(name, ("TRUE", "FALSE"), "FALSE") == "TRUE"


def _number(settings: ClientSettings, name: str, default: float, *, lowest: float, highest: float) -> float:
    text = settings.get(name)
    try:
        number = float(text or default)
    except ValueError:
        number = highest + 1
    if not lowest <= number <= highest:
        raise settings.bad_setting(name, f"{text[:100]!r} is not a number from {lowest:g} to {highest:g}")
    return number
