"""Processes of an operator, which live longer than their starter: command lines and environments, start, find again,
end. Secrets go through the environment; arguments name repositories and uids.

The record of a process has its id, start time, boot and container: another process with a reused id is never taken
for the recorded process, and never signalled. The record is written before the process does anything: a new process
waits for a word on its input, and exits without the word after the death of its starter.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, cast

from offsite.engine.sessions.master import runs_in_one_jvm
from offsite.model.errors import BadResource, ClusterClosed, JobNotBegun
from offsite.model.machine import OWN_PYTHON
from offsite.model.version import __version__
from offsite.operator.core.accounts import Accounts, select_store_variables, variables_of
from offsite.operator.core.files import FolderLayout, read_whole
from offsite.operator.decide.desired import DesiredAgents, RepositoryPlace
from offsite.operator.resources.backup import Expiry
from offsite.repository.lease import ProcessIdentity

LOG_MAX_BYTES = 1024 * 1024
"""Size limit of the log of a process. A full log is copied to `.1`, and the log continues empty."""

_WORDS_MAX = 500
_TAIL_BYTES = 64 * 1024
"""Bytes read from the end of a log: an error with many names is far longer than the hint after it."""

_RUN = 'read -r _ || exit 1; exec "$@" </dev/null'
_RUN_AND_TELL = 'read -r _ || exit 1; told=$1; shift; "$@" </dev/null; echo $? >"$told~" && mv "$told~" "$told"'
"""The exit code of a process goes to its parent only, which may be gone by then: so the shell writes the exit code into
a file."""

_children: list[subprocess.Popen[bytes]] = []
_lock = threading.Lock()
OFFSITE = (*OWN_PYTHON, "-c", "from offsite.cli.main import main; main()")
PLACES = "OFFSITE_PLACES"
"""A variable of expiry jobs over several accounts: the variables that open every place, in the order of `--place`. Two
accounts may have repositories with one URL, at stores that only their variables distinguish."""
_SPARK = (MASTER, CONF, PROPERTIES, ARCHIVE) = (
    *("OFFSITE_SPARK_MASTER", "OFFSITE_SPARK_CONF", "OFFSITE_SPARK_PROPERTIES", "OFFSITE_SPARK_ARCHIVE"),
)
"""The Spark to use: jobs use the operator's Spark, agents use the operator's settings below the settings of their
template."""
_NOT_INHERITED = frozenset({"OFFSITE_BOOTSTRAP", "OFFSITE_KAFKA_CONFIG", "OFFSITE_REPO", *_SPARK, "OFFSITE_LOG_FILE"})
"""Variables for the operator itself, or for a typed command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessLaunch:
    """A command to run: arguments, visible to every user of the machine, and the whole environment, visible to no other
    user."""

    argv: Sequence[str]
    environment: Mapping[str, str] = field(repr=False)


def begin(
    launch: ProcessLaunch, *, log: Path, note: Callable[[ProcessIdentity], None], exit_code_file: Path | None = None
) -> None:
    """Start a process in a session of its own; its output is appended to `log`. `note` is called before the process
    does anything. `exit_code_file`: holds the exit code after the process ended by itself. Raises `JobNotBegun`, and
    the errors of `note`."""
    script = [
        "/bin/sh",
        "-c",
        _RUN if exit_code_file is None else _RUN_AND_TELL,
        "offsite",
        *([str(exit_code_file)] if exit_code_file else []),
    ]
    try:
        process = _spawned([*script, *launch.argv], launch, log)
    except OSError as error:
        raise JobNotBegun(
            f"no process could be started: {error.strerror}", hint="check memory and process limits of this machine"
        ) from error
    with _lock:
        _children.append(process)
    with suppress(BrokenPipeError), cast("IO[bytes]", process.stdin) as go:
        note(ProcessIdentity.of_process(process.pid))
        go.write(b"go\n")


def _spawned(command: Sequence[str], launch: ProcessLaunch, log: Path) -> subprocess.Popen[bytes]:
    log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        return subprocess.Popen(
            command,
            env=dict(launch.environment),
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    finally:
        os.close(output)


def is_alive(identity: ProcessIdentity) -> bool:
    """Whether a process of the local machine may still run. False for a process of an earlier boot or of a former
    container."""
    mine = ProcessIdentity.current()
    _reap()
    return is_here(identity) and not replace(identity, host=mine.host).is_gone(seen_from=mine)


def _is_running(identity: ProcessIdentity) -> bool:
    """Whether a process of the local machine still runs, without any doubt that it is this one."""
    mine = ProcessIdentity.current()
    _reap()
    return is_here(identity) and replace(identity, host=mine.host).is_running(seen_from=mine)


def is_here(identity: ProcessIdentity) -> bool:
    """Whether the process belongs to this boot and this container, under any name of the machine."""
    mine = ProcessIdentity.current()
    is_told = bool(identity.boot) or identity.host == mine.host
    return is_told and (identity.boot, identity.namespace) == (mine.boot, mine.namespace)


def terminate(identity: ProcessIdentity) -> None:
    """Send SIGTERM. The process ends its children."""
    if _is_running(identity):
        with suppress(ProcessLookupError):
            os.kill(int(identity.pid), signal.SIGTERM)


def kill(identity: ProcessIdentity) -> None:
    """End the process and its process group at once."""
    if _is_running(identity):
        with suppress(ProcessLookupError):
            os.killpg(int(identity.pid), signal.SIGKILL)


def bound_log(log: Path) -> None:
    """Empty a log that is full. The writer appends at the end of the file, so the writer continues at the new end."""
    with suppress(FileNotFoundError):
        if log.stat().st_size > LOG_MAX_BYTES:
            with log.open("rb+") as file:
                full = Path(f"{log}.1")
                full.touch(mode=0o600)
                full.write_bytes(file.read(2 * LOG_MAX_BYTES))
                file.truncate(0)


def last_words(log: Path) -> str:
    """Return the last message of a process, for people: an error with its hint, or else the last line."""
    lines = _tail(log)
    at = next((number for number in reversed(range(len(lines))) if lines[number].startswith("error[")), None)
    return (
        "; ".join(map(str.strip, lines[at:]))[:_WORDS_MAX]
        if at is not None
        else lines[-1][:_WORDS_MAX]
        if lines
        else ""
    )


def _tail(log: Path) -> list[str]:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            return file.read(_TAIL_BYTES).decode(errors="replace").strip().splitlines()
    except OSError:
        return []


def _reap() -> None:
    """Reap ended children: an ended child remains a process until its parent polls."""
    with _lock:
        _children[:] = [process for process in _children if process.poll() is None]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLaunch:
    """`essence`: all inputs of a process, beside the operator's own start settings."""

    launch: ProcessLaunch
    essence: bytes = field(repr=False)

    def fingerprint(self, salt: str) -> str:
        """Return a hash that shows whether a process was started with the same inputs. The inputs hold secrets: the
        salt protects them."""
        return hashlib.sha256(salt.encode() + self.essence).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Launches:
    """`command`: the command `offsite` on the local machine. `allow`: raises `BadResource` for a choice of a resource
    that the home forbids. `closed`: why resources may not use a cluster of the operator; empty: they may.
    `agents_see_clusters`: whether agents read the same files of clusters; otherwise no choice of theirs is in one."""

    layout: FolderLayout
    accounts: Accounts
    command: Sequence[str] = OFFSITE
    allow: Callable[[DesiredAgents], None] = lambda _: None
    closed: Callable[[str], str] = lambda _: ""
    agents_see_clusters: bool = True

    def agent(self, uid: str, agents: DesiredAgents) -> AgentLaunch:
        """Return the launch of an agent of a backup. Raises `BadResource` if its account or its cluster is unknown."""
        place = agents.place
        self.check(agents)
        whose = ("--repo", place.repository, "--uid", agents.identity or uid)
        argv = (*self.command, "operator", "agent", *whose, *agents.retention_words)
        spark = agents.template.spark_environment()
        variables = {"OFFSITE_KAFKA_CONFIG": str(self.layout.cluster(agents.cluster)), **spark}
        template, account = agents.template.environment, self.accounts.account(place)
        template_variables = variables_of(account, template)
        essence = (
            __version__,
            argv,
            sorted({**template_variables, **variables}.items()),
            self.properties(agents.cluster),
        )
        environment = {**variables_of(account, {**self._inherited(), **template}), **variables, **_settings(spark)}
        return AgentLaunch(launch=ProcessLaunch(argv=argv, environment=environment), essence=repr(essence).encode())

    def check(self, agents: DesiredAgents) -> None:
        """Check the choices of a resource for its agents. Raises `BadResource` for a choice reserved for the operator,
        with another value than the operator's."""
        template = agents.template
        if problem := template.forbidden():
            raise BadResource(problem)
        if agents.strimzi is not None and self.agents_see_clusters:
            raise BadResource(
                "spec.strimzi works in Kubernetes alone: its API says where the listener is",
                hint=f"remove it, and write the bootstrap.servers into {self.layout.cluster(agents.cluster)}",
            )
        foreign = {MASTER: template.spark_master, ARCHIVE: template.spark_archive}
        if template.is_local:
            del foreign[MASTER]
        for name, value in foreign.items():
            if value and value != os.environ.get(name):
                raise BadResource(
                    f"spec.agents.template: {value!r} differs from the operator's {name}: tasks with secrets are sent "
                    "there",
                    hint="remove it, or start the operator with it",
                )
        self.allow(agents)

    def expiry(
        self, uid: str, places: Sequence[RepositoryPlace], policy: Expiry, *, is_deletion: bool, identity: str = ""
    ) -> ProcessLaunch:
        """Return the launch of an expiry job over all `places`, each opened by its own account. Raises
        `BadResource`."""
        inherited = self._inherited()
        opened = [(place.repository, variables_of(self.accounts.account(place), inherited)) for place in places]
        ways = [way for at, way in enumerate(opened) if way not in opened[:at]]
        words = [word for repository, _ in ways for word in ("--place", repository)]
        if is_deletion:
            words += ["--delete", *(["--member", uid] if identity else [])]
        else:
            words += ["--maximum-retention", policy.maximum_retention] if policy.maximum_retention else []
            words += ["--minimum-restorable", policy.minimum_restorable] if policy.minimum_restorable else []
        environment = dict(ways[-1][1]) if ways else inherited
        if len({place.account for place in places}) > 1:
            environment[PLACES] = json.dumps([select_store_variables(variables) for _, variables in ways])
        return ProcessLaunch(
            argv=(*self.command, "operator", "expire", "--uid", identity or uid, *words), environment=environment
        )

    def job(self, place: RepositoryPlace, cluster: str) -> Mapping[str, str]:
        """Return the environment of a job in a repository, for a cluster or none (empty name). The job uses the
        operator's Spark: a job has no template. Raises `BadResource`."""
        variables = {name: os.environ[name] for name in _SPARK if name in os.environ}
        variables["OFFSITE_REPO"] = place.repository
        if cluster:
            self.reach(cluster)
            variables["OFFSITE_KAFKA_CONFIG"] = str(self.layout.cluster(cluster))
        return {**variables_of(self.accounts.account(place), self._inherited()), **variables}

    def properties(self, cluster: str) -> bytes:
        """Return the file with which agents reach their cluster, if they see it. Raises as `reach`."""
        return self.reach(cluster) if self.agents_see_clusters else b""

    def reach(self, cluster: str) -> bytes:
        """Return the file that says how to reach a cluster from here. Raises `BadResource` if it does not exist, and
        `ClusterClosed`."""
        path = self.layout.cluster(cluster)
        if (data := read_whole(path)) is None:
            raise BadResource(f"there is no cluster {cluster!r}", hint=f"write its bootstrap.servers into {path}")
        if problem := self.closed(cluster):
            raise ClusterClosed(f"cluster {cluster} {problem}")
        return data

    def _inherited(self) -> dict[str, str]:
        return {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}


def _settings(spark: Mapping[str, str]) -> Mapping[str, str]:
    """The operator's own Spark settings for an agent, below the settings of the template. The operator's archive
    belongs to the operator's master."""
    operator_settings = {name: os.environ[name] for name in (CONF, PROPERTIES, ARCHIVE) if name in os.environ}
    if runs_in_one_jvm(spark.get(MASTER, "local")):
        operator_settings.pop(ARCHIVE, None)
    return {
        **operator_settings,
        **spark,
        **({CONF: f"{operator_settings[CONF]}\n{spark[CONF]}"} if CONF in operator_settings and CONF in spark else {}),
    }


def parse_place_environments(environment: Mapping[str, str]) -> Sequence[Mapping[str, str]]:
    """Return the variables of every repository of an expiry job, in order, from the environment of its process; empty
    if one account opens all."""
    environments: Sequence[Mapping[str, str]] = json.loads(environment.get(PLACES, "[]"))
    return environments
