"""`offsite serve`: the coordinator, over HTTP and as pages. `offsite tokens`: roles of callers."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from offsite.checkpoint.options import ZeebeWords, parse_zeebe
from offsite.cli.options import Bootstrap, KafkaConfigFile, OptionalBackup, Output, Repo, checked_places, takes
from offsite.cli.output import Line, OutputFormat, emit, note
from offsite.cli.wiring import SparkOptions
from offsite.model.errors import BadOption, OffsiteError
from offsite.model.machine import can_others_reach, exposure
from offsite.model.units import parse_duration_s

if TYPE_CHECKING:
    from collections.abc import Callable

    from offsite.serve.gate import GateRules
    from offsite.serve.site import ClusterAddress, Site
    from offsite.serve.tokens import Tokens


LOOPBACK = "127.0.0.1"
TIDIED_EACH_S = 3600.0
LEAST_INTERVAL_S = 1.0
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

    repo: Repo
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port to listen on.")] = 8080
    host: Annotated[
        str, typer.Option("--host", help="Address to listen on; addresses beyond this machine need tokens.")
    ] = LOOPBACK
    token_file: TokenFile = None
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
def serve(options: ServeOptions, engine: SparkOptions) -> None:
    """Serve backups over HTTP: an API, and pages for a browser. Needs: pip install 'offsite[serve]'.

    All state is in the repository: any number of coordinators may serve a repository. Callers need a token of
    --token-file, or the printed address: its code begins one session.
    """
    _check_installed()
    from offsite.serve.app import listen, make_app
    from offsite.serve.app import serve as run
    from offsite.serve.browsers import LoginCode

    rules, site = _gate_rules(options), _site(options, engine)
    with listen(options.host, options.port) as sockets:
        scheme = "https" if options.tls_cert else "http"
        host = sockets.host if options.host in _LOOPBACKS and not options.tls_cert else options.host  # TLS knows names
        address = f"{scheme}://{_shown(host)}:{sockets.port}"
        note(f"serving {options.repo} at {address}")
        if options.token_file is None and not options.no_token:
            code = LoginCode(
                lambda code: _tell(f"open {address}/login?code={code} (works once; then the next address is printed)")
            )
            code.renew()
            rules = replace(rules, login_code=code)
        if not options.read_only:
            threading.Thread(target=_tidy, args=(site,), name="tidy", daemon=True).start()
        if site.watch is not None:
            threading.Thread(target=site.watch.run, name="source", daemon=True).start()
        run(make_app(site, rules), sockets=sockets, tls=_tls(options))


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
    output: Output = OutputFormat.TABLE,
) -> None:
    """Create a token, and show it once.

    watch: see the state of backups; read: also jobs and plans; operate: also run backups and checks; restore: also
    write into clusters. Only with +records, as in read+records, a token may also see keys, values and headers of
    records, and search for them.
    """
    _check_installed()
    from offsite.serve.tokens import new_token

    name, _, role = form.partition(":")
    emit(NewToken(name=name, role=role, token=new_token(form, token_file)), output=output, render=_render_token)


def _check_installed() -> None:
    from importlib.util import find_spec

    if missing := [module for module in ("fastapi", "jinja2", "uvicorn") if find_spec(module) is None]:
        raise BadOption(f"{', '.join(missing)} is not installed", hint="install it: pip install 'offsite[serve]'")


def _gate_rules(options: ServeOptions) -> GateRules:
    """Make the access rules. Raises `BadOption`."""
    from offsite.serve.browsers import Hosts, Sessions
    from offsite.serve.gate import GateRules

    if options.no_token and options.token_file is not None:
        raise BadOption("--no-token and --token-file exclude each other", hint="leave one of them out")
    if options.host not in _LOOPBACKS and options.token_file is None:
        raise BadOption(
            f"{options.host} can be reached from other machines, and nobody would need a token",
            hint="give --token-file FILE; create it with: offsite tokens add NAME:ROLE --token-file FILE",
        )
    if options.host not in _LOOPBACKS and options.tls_cert is None:
        note(
            "warning: tokens cross the network unencrypted: give --tls-cert and --tls-key, or put a TLS proxy in front"
        )
    return GateRules(
        hosts=Hosts.of([*(options.allow_host or ()), options.host]),
        sessions=Sessions(_session_key(options.session_key_file)),
        tokens=_tokens(options),
        read_only=options.read_only,
    )


def _tokens(options: ServeOptions) -> Callable[[], Tokens] | None:
    from offsite.serve.tokens import TokenFile, make_owner_tokens

    if options.no_token:
        return None
    if options.token_file is not None:
        return TokenFile(options.token_file)
    owner_tokens = make_owner_tokens()
    return lambda: owner_tokens


def _site(options: ServeOptions, engine: SparkOptions) -> Site:
    from offsite.serve.site import SOURCE, ClusterAddress, Site, SiteSettings

    parse_zeebe(options.clusters)
    source_cluster = ClusterAddress(bootstrap=options.bootstrap, kafka_config=options.kafka_config)
    places = {SOURCE: source_cluster} if source_cluster.is_named else {}
    return Site(
        SiteSettings(
            repo=options.repo,
            backup=options.backup,
            addresses={**places, **dict(_target(target) for target in options.target or ())},
            records=tuple(options.records or ()),
            spark=engine.choice(),
            read_only=options.read_only,
            clusters=options.clusters,
            metastore=options.metastore,
            interval_s=_interval_s(options.interval),
        )
    )


def _interval_s(text: str) -> float:
    interval_s = parse_duration_s(text)
    if interval_s < LEAST_INTERVAL_S:
        raise BadOption(
            f"--interval {text} is shorter than a second",
            hint="brokers would be asked all the time; try --interval 30s",
        )
    return interval_s


def _target(text: str) -> tuple[str, ClusterAddress]:
    from offsite.serve.site import SOURCE, ClusterAddress

    name, _, address = text.partition("=")
    bootstrap, _, file = address.partition(",") if address.count(",") == 1 and "/" in address else (address, "", "")
    if not name or not bootstrap or name == SOURCE:
        raise BadOption(f"{text[:100]!r} is not NAME=HOST:PORT[,FILE]", hint="write it as dr=broker:9092")
    return name, ClusterAddress(bootstrap=bootstrap, kafka_config=Path(file) if file else None)


def _tls(options: ServeOptions) -> tuple[Path, Path] | None:
    if options.tls_cert is None and options.tls_key is None:
        return None
    if options.tls_cert is None or options.tls_key is None:
        raise BadOption("--tls-cert and --tls-key must be given together", hint="give both")
    if options.tls_key.is_file() and (why := exposure(options.tls_key.stat())):
        note(f"warning: {options.tls_key} holds a secret, and {why}")
    return options.tls_cert, options.tls_key


def _session_key(file: Path | None) -> bytes | None:
    if file is None:
        return None
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
