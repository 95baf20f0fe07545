"""`offsite serve`: the coordinator, over HTTP and as pages. `offsite tokens`: roles of callers."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from offsite.checkpoint.options import ZeebeWords, parse_zeebe
from offsite.cli.options import (
    Bootstrap,
    KafkaConfigFile,
    OptionalBackup,
    OptionalRepo,
    Output,
    check_not_typed,
    checked_places,
    takes,
)
from offsite.cli.output import Line, OutputFormat, emit, note
from offsite.cli.telling import NotifyFile, messages_of
from offsite.cli.wiring import SparkOptions
from offsite.model.clock import SystemClock
from offsite.model.errors import BadOption, OffsiteError
from offsite.model.machine import can_others_reach, exposure
from offsite.model.units import parse_duration_s

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from offsite.notify.teller import Receiver
    from offsite.serve.gate import Gate, GateRules
    from offsite.serve.oidc.login import OidcLogin
    from offsite.serve.repository_watch import RepositoryWatch
    from offsite.serve.sessions import Sessions
    from offsite.serve.site import Site, SiteSettings
    from offsite.serve.tokens import Tokens


LOOPBACK = "127.0.0.1"
TIDIED_EACH_S = 3600.0
LEAST_SESSION_S, MOST_SESSION_S = 60, 30 * 24 * 3600
_OF_ONE_REPOSITORY = (
    *("repo", "backup", "bootstrap", "kafka_config", "target", "records"),
    *("zeebe", "zeebe_token_file", "metastore", "interval"),
)
_LOOPBACKS = frozenset({LOOPBACK, "::1", "localhost"})

tokens = typer.Typer(help="Manage tokens: who may do what on a coordinator.", no_args_is_help=True)

TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file", envvar="OFFSITE_TOKEN_FILE", help="Token file: who may do what; see: offsite tokens add."
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """The parts of a coordinator, and its callers, as typed."""

    repo: OptionalRepo = None
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", metavar="FILE", help="A YAML file of several repositories, instead of the options of one."
        ),
    ] = None
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port to listen on.")] = 8080
    host: Annotated[
        str, typer.Option("--host", help="Address to listen on; addresses beyond this machine need tokens.")
    ] = LOOPBACK
    token_file: TokenFile = None
    oidc: Annotated[
        Path | None,
        typer.Option(
            "--oidc", envvar="OFFSITE_OIDC", help="File in YAML: login at an identity provider by OpenID Connect."
        ),
    ] = None
    no_token: Annotated[
        bool, typer.Option("--no-token", help="Allow everybody on this machine to do everything, without a token.")
    ] = False
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", help="A host name under which clients may call this server, besides localhost."),
    ] = None
    tls_cert: Annotated[Path | None, typer.Option("--tls-cert", help="Certificate, with its chain, in PEM.")] = None
    tls_key: Annotated[Path | None, typer.Option("--tls-key", help="Key of the certificate, in PEM.")] = None
    session_key_file: Annotated[
        Path | None,
        typer.Option(
            "--session-key-file", help="File of 32 bytes or more, the same for all coordinators behind one address."
        ),
    ] = None
    session_max: Annotated[
        str, typer.Option("--session-max", help="How long a session of a browser lasts from its login.")
    ] = "12h"
    session_idle: Annotated[
        str, typer.Option("--session-idle", help="How long a session of a browser lasts without use.")
    ] = "2h"
    notify: NotifyFile = None
    read_only: Annotated[bool, typer.Option("--read-only", help="Show everything, change nothing.")] = False
    backup: OptionalBackup = None
    bootstrap: Bootstrap = None
    kafka_config: KafkaConfigFile = None
    target: Annotated[
        list[str] | None,
        typer.Option("--target", help="NAME=HOST:PORT[,FILE]: a cluster to restore into, with its client.properties."),
    ] = None
    records: Annotated[
        list[str] | None,
        typer.Option(
            "--records",
            help="A folder or a URL for records of restores, for a read-only repository. A request for a restore can "
            "name one of these places. May be repeated.",
            callback=checked_places,
        ),
    ] = None
    clusters: ZeebeWords = field(default_factory=ZeebeWords)
    metastore: Annotated[
        Path | None,
        typer.Option("--metastore", help="Folder of offsite metastore backup on this machine, shown on a page."),
    ] = None
    interval: Annotated[
        str, typer.Option("--interval", help="How often to compare the backups with the cluster of --bootstrap.")
    ] = "30s"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewToken:
    """`token` is shown here only: the file has the hash."""

    name: str
    role: str
    token: str


@takes(ServeOptions, SparkOptions)
def serve(options: ServeOptions, engine: SparkOptions, context: typer.Context) -> None:
    """Serve backups over HTTP: an API, and pages for a browser. Needs: pip install 'offsite[serve]'.

    All state is in the repository: any number of coordinators may serve a repository. Callers need a token of
    --token-file, a login by --oidc, or the printed address: its code begins one session. With --config one coordinator
    serves several repositories, with a first page over all.
    """
    _check_installed()
    from offsite.serve.app import listen
    from offsite.serve.app import serve as run
    from offsite.serve.browsers import LoginCode

    rules, sites = _gate_rules(options), _sites(options, engine, context)
    receivers = [] if options.notify is None else messages_of(options.notify, "serve")
    with listen(options.host, options.port) as sockets:
        scheme = "https" if options.tls_cert else "http"
        host = sockets.host if options.host in _LOOPBACKS and not options.tls_cert else options.host  # TLS knows names
        address = f"{scheme}://{_shown(host)}:{sockets.port}"
        note(f"serving {options.repo if options.config is None else options.config} at {address}")
        if options.token_file is None and options.oidc is None and not options.no_token:
            code = LoginCode(
                lambda code: _tell(f"open {address}/login?code={code} (works once; then the next address is printed)")
            )
            code.renew()
            rules = replace(rules, login_code=code)
        for site in sites:
            _begin_threads(site)
        watches = _begin_watches(sites, receivers, options.notify)
        run(_app(sites, watches, rules), sockets=sockets, tls=_tls(options))


def _begin_threads(site: Site) -> None:
    if not site.settings.read_only:
        threading.Thread(target=_tidy, args=(site,), name="tidy", daemon=True).start()
    if site.watch is not None:
        threading.Thread(target=site.watch.run, name="source", daemon=True).start()


def _begin_watches(sites: Sequence[Site], receivers: Sequence[Receiver], file: Path | None) -> list[RepositoryWatch]:
    """Begin to read each repository in a thread of its own, and one that tells: if there are several, or anybody to
    tell."""
    from offsite.serve.notifier import Notifier
    from offsite.serve.repository_watch import RepositoryWatch

    watches = [RepositoryWatch(site, SystemClock()) for site in sites if site.settings.name or receivers]
    for watch in watches:
        threading.Thread(target=watch.run, name="status", daemon=True).start()
    if file is not None and receivers:
        notifier = Notifier(watches, receivers, clock=SystemClock(), subject=str(file.absolute()))
        threading.Thread(target=notifier.run, name="notifier", daemon=True).start()
    return watches


def _app(sites: Sequence[Site], watches: Sequence[RepositoryWatch], rules: GateRules) -> Gate:
    from offsite.serve.app import make_app, make_app_of_several

    if not sites[0].settings.name:
        return make_app(sites[0], rules)
    return make_app_of_several({watch.site.settings.name: watch for watch in watches}, rules)


def _tell(line: str) -> None:
    with suppress(OSError):  # the terminal that it was started in is gone
        note(line)


def _tidy(site: Site) -> None:
    """Delete results of searches after their time."""
    from offsite.jobs.end import forget_searches

    while True:
        with suppress(OffsiteError):  # there is no repository: whoever asks is told so
            forget_searches(site.repository().store)
        time.sleep(TIDIED_EACH_S)


@tokens.command()
def add(
    form: Annotated[
        str,
        typer.Argument(
            metavar="NAME:ROLE", help="Role: watch, read, operate or restore; with records: read+records, and so on."
        ),
    ],
    token_file: Annotated[Path, typer.Option("--token-file", help="File to append the token's hash to.")],
    backups: Annotated[
        str,
        typer.Option(
            "--backups",
            help="Names or patterns of backups, with commas: other backups are absent for this token. Among several "
            "repositories REPOSITORY/BACKUP names the repository.",
        ),
    ] = "",
    topics: Annotated[
        str, typer.Option("--topics", help="Names or patterns of topics: records and restores of others are refused.")
    ] = "",
    until: Annotated[str, typer.Option("--until", help="The last day of the token, in UTC, as 2026-12-31.")] = "",
    output: Output = OutputFormat.TABLE,
) -> None:
    """Create a token, and show it once.

    watch: see the state of backups; read: also jobs and plans; operate: also run backups and checks; restore: also
    write into clusters. Only with +records, as in read+records, a token may also see keys, values and headers of
    records, and search for them.
    """
    _check_installed()
    from offsite.serve.tokens import new_token

    token = new_token(form, token_file, backups=backups, topics=topics, until=until)
    name, _, role = form.partition(":")
    emit(NewToken(name=name, role=role, token=token), output=output, render=_render_token)


def _check_installed() -> None:
    from importlib.util import find_spec

    if missing := [
        module for module in ("fastapi", "jinja2", "joserfc", "uvicorn", "yaml") if find_spec(module) is None
    ]:
        raise BadOption(f"{', '.join(missing)} is not installed", hint="install it: pip install 'offsite[serve]'")


def _gate_rules(options: ServeOptions) -> GateRules:
    """Make the access rules. Raises `BadOption`."""
    from offsite.serve.browsers import Hosts
    from offsite.serve.gate import GateRules

    for option, file in (("--token-file", options.token_file), ("--oidc", options.oidc)):
        if options.no_token and file is not None:
            raise BadOption(f"--no-token and {option} exclude each other", hint="leave one of them out")
    if options.host not in _LOOPBACKS and options.token_file is None and options.oidc is None:
        raise BadOption(
            f"{options.host} can be reached from other machines, and nobody would need a token",
            hint="give --token-file FILE; create it with: offsite tokens add NAME:ROLE --token-file FILE",
        )
    if options.host not in _LOOPBACKS and options.tls_cert is None:
        note(
            "warning: tokens cross the network unencrypted: give --tls-cert and --tls-key, or put a TLS proxy in front"
        )
    sessions = _sessions(options)
    oidc, public_host = _oidc(options, sessions)
    return GateRules(
        hosts=Hosts.of([*(options.allow_host or ()), options.host, *public_host]),
        sessions=sessions,
        tokens=_tokens(options),
        read_only=options.read_only,
        oidc=oidc,
    )


def _oidc(options: ServeOptions, sessions: Sessions) -> tuple[OidcLogin | None, list[str]]:
    """Return the login at the identity provider, and the host name of this coordinator for browsers."""
    from offsite.serve.oidc.login import OidcLogin
    from offsite.serve.oidc.settings import OidcFile

    if options.oidc is None:
        return None, []
    file = OidcFile(options.oidc)
    settings = file()
    hosts = [] if settings is None else [urlsplit(settings.provider.public_url).hostname or ""]
    return OidcLogin(file, sessions, SystemClock()), hosts


def _sessions(options: ServeOptions) -> Sessions:
    from offsite.serve.sessions import SessionLimits, Sessions, can_remember

    limits = SessionLimits(
        lasts_s=_session_s("--session-max", options.session_max),
        idle_s=_session_s("--session-idle", options.session_idle),
    )
    key_file = options.session_key_file
    if key_file is None:
        return Sessions(limits=limits)
    key, ended_file = _session_key(key_file), key_file.with_name(f"{key_file.name}.ended")
    if not can_remember(ended_file):
        note(
            f"warning: {ended_file} cannot be written: a copied cookie of a session that was logged out counts again "
            "after a restart, and at other coordinators"
        )
    return Sessions(key, limits=limits, ended_file=ended_file)


def _session_s(option: str, text: str) -> int:
    duration_s = int(parse_duration_s(text))
    if not LEAST_SESSION_S <= duration_s <= MOST_SESSION_S:
        raise BadOption(f"{option} {text} is not from 1m to 30d", hint=f"try {option} 8h")
    return duration_s


def _tokens(options: ServeOptions) -> Callable[[], Tokens] | None:
    from offsite.serve.tokens import TokenFile, Tokens, make_owner_tokens

    if options.no_token:
        return None
    if options.token_file is not None:
        return TokenFile(options.token_file)
    if options.oidc is not None:
        return lambda: Tokens(active=())
    owner_tokens = make_owner_tokens()
    return lambda: owner_tokens


def _sites(options: ServeOptions, engine: SparkOptions, context: typer.Context) -> list[Site]:
    """Make the repositories: that of the options, or those of the file. Raises `BadOption`."""
    from offsite.jobs.workers import Workers
    from offsite.serve.config_file import read_config
    from offsite.serve.site import Site

    if options.config is None:
        return [Site(_settings(options, engine))]
    check_not_typed(context, _OF_ONE_REPOSITORY, beside="--config")
    workers = Workers(environment={})
    settings = read_config(options.config, spark=engine.choice(), read_only=options.read_only)
    return [Site(of_repository, workers=workers) for of_repository in settings.values()]


def _settings(options: ServeOptions, engine: SparkOptions) -> SiteSettings:
    from offsite.serve.config_file import parse_interval_s, parse_targets
    from offsite.serve.site import SOURCE, ClusterAddress, SiteSettings

    if options.repo is None:
        raise BadOption("no repository is named", hint="give --repo URL, or several in a file: --config FILE")
    parse_zeebe(options.clusters)
    source_cluster = ClusterAddress(bootstrap=options.bootstrap, kafka_config=options.kafka_config)
    places = {SOURCE: source_cluster} if source_cluster.is_named else {}
    return SiteSettings(
        repo=options.repo,
        backup=options.backup,
        addresses={**places, **parse_targets(options.target or ())},
        records=tuple(options.records or ()),
        spark=engine.choice(),
        read_only=options.read_only,
        clusters=options.clusters,
        metastore=options.metastore,
        interval_s=parse_interval_s(options.interval),
    )


def _tls(options: ServeOptions) -> tuple[Path, Path] | None:
    if options.tls_cert is None and options.tls_key is None:
        return None
    if options.tls_cert is None or options.tls_key is None:
        raise BadOption("--tls-cert and --tls-key must be given together", hint="give both")
    if options.tls_key.is_file() and (why := exposure(options.tls_key.stat())):
        note(f"warning: {options.tls_key} holds a secret, and {why}")
    return options.tls_cert, options.tls_key


def _session_key(file: Path) -> bytes:
    try:
        if can_others_reach(file.stat()):
            raise BadOption(
                f"{file} can be read by other users, who could create sessions",
                hint="become its owner, and: chmod 600 FILE",
            )
        key = file.read_bytes()
    except OSError as error:
        raise BadOption(f"{file} cannot be read: {error.strerror}", hint="name a file of 32 random bytes") from error
    if len(key) < 32:
        raise BadOption(f"{file} has only {len(key)} bytes", hint="create it with: head -c 32 /dev/urandom > FILE")
    return key


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _render_token(token: NewToken) -> Iterator[Line]:
    yield f"token of {token.name} ({token.role}), shown this once: {token.token}"
    yield "send it as: Authorization: Bearer TOKEN; pages ask for it at /login"
