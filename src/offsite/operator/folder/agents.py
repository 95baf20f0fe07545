"""Agents as processes of the local machine: a number per backup, started, found again, replaced one after the other.

The configuration is stored beside the record of every process, so any operator of the folder can manage the agents,
even while a repository does not answer. Agents outlive operators.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from offsite.model.clock import Clock
from offsite.model.errors import BadResource, OffsiteError
from offsite.model.ids import random_id
from offsite.model.journal import decided, warned
from offsite.model.untrusted.json_object import JsonObject, JsonValue
from offsite.operator.core.files import FolderLayout, locked, read_json, write_json
from offsite.operator.core.processes import (
    AgentLaunch,
    Launches,
    begin,
    bound_log,
    is_alive,
    is_here,
    kill,
    last_words,
    terminate,
)
from offsite.operator.decide.desired import DesiredAgents, RepositoryPlace
from offsite.operator.decide.observed import ObservedAgents
from offsite.operator.resources.backup import AgentTemplate
from offsite.repository.lease import ProcessIdentity
from offsite.stores.plain_files import make_private_root, wrap_errors

READY_MS = 3_000
"""Time a process must run before the process counts as ready: a process that cannot start exits earlier."""
LIVED_MS = 60_000
"""A process that ran for so long did not fail at its start: its successor starts at once."""
PAUSE_MAX_MS = 300_000
END_MAX_MS = 45_000
"""Time limit of a process after SIGTERM: a clean end takes 30 s at most."""
_WANTED = "wanted.json"
_LOOKED = "looked"
"""A file that the operator of a machine touches regularly: with the server's clock on a network file system."""
LOOKED_EVERY_S = 60.0
SILENT_S = 7 * 24 * 3600.0
"""A machine counts as gone after so long without a sign of an operator or agent: a copying agent logs every five
minutes. The records of its agents are deleted. If an agent runs nevertheless, the lease of its backup still protects
the backup."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentProcess:
    """The record of one agent process. `failures`: early exits in a row. Times: epoch ms, 0: never."""

    number: int
    identity: ProcessIdentity
    salt: str
    fingerprint: str
    started_ms: int
    told_ms: int = 0
    ended_ms: int = 0
    failures: int = 0

    @property
    def pause_ms(self) -> int:
        """Time from the end of the process to the start of its successor."""
        return min(1000 * 2**self.failures, PAUSE_MAX_MS) if self.failures else 0

    def runs(self, agent: AgentLaunch) -> bool:
        """Whether the process runs with that configuration."""
        return self.fingerprint == agent.fingerprint(self.salt)


class LocalAgents:
    """Implements `AgentRuntime`, and `tend`, which starts and ends processes as configured."""

    def __init__(self, layout: FolderLayout, *, clock: Clock) -> None:
        self._layout, self._clock = layout, clock
        self.launches: Launches | None = None

    def observe(self, uid: str) -> ObservedAgents:
        desired, now_ms = self._desired(uid), self._clock.now_ms()
        ready = [
            process
            for process in self.processes(uid)
            if is_alive(process.identity) and not process.told_ms and now_ms - process.started_ms >= READY_MS
        ]
        return ObservedAgents(configured=desired, ready=len(ready))

    def configure(self, uid: str, agents: DesiredAgents | None) -> None:
        path = self._folder(uid) / _WANTED
        if agents is None:
            path.unlink(missing_ok=True)
        else:
            write_json(path, _fields(agents))

    def alive(self, uid: str) -> int:
        """Return the number of existing processes, ready or not."""
        return sum(is_alive(process.identity) for process in self.processes(uid))

    def unseen(self, uid: str) -> int:
        """Return the number of agents of the resource that other machines of the shared folder have recorded without an
        end."""
        processes = _noted_in(self._layout.agents_of_all, uid)
        return sum(not process.ended_ms and not is_here(process.identity) for process in processes.values())

    def problem(self, uid: str) -> str:
        """Return the last message of the first process that exits repeatedly; empty: no such process."""
        for process in self.processes(uid):
            if process.failures and self._clock.now_ms() - process.started_ms < LIVED_MS + process.pause_ms:
                said = last_words(self._log(uid, process.number)) or "no output"
                return f"process {process.number} ended {process.failures} times in a row: {said}"
        return ""

    def processes(self, uid: str) -> list[AgentProcess]:
        documents = (read_json(path) for path in sorted(self._folder(uid).glob("[0-9]*.json")))
        return [_process(document) for document in documents if document is not None]

    def tend(self, list_uids: Callable[[], Collection[str]]) -> None:
        """Inspect all processes once: end, start, replace. `list_uids`: uids of the existing resources, read after the
        processes; agents of other uids are ended."""
        folders = self._folders()
        try:
            uids = list_uids()
        except OffsiteError as error:  # then no resource counts as deleted
            warned("agents", error=error.id, why=error.message)
            uids = [folder.name for folder in folders]
        for folder in folders:
            if folder.name not in uids:
                self.configure(folder.name, None)
            try:
                with locked(self._layout.lock):
                    self._tend(folder.name)
            except OffsiteError as error:  # other agents are managed nevertheless
                warned("agents", error=error.id, why=error.message, uid=folder.name)
        self._tend_others()

    def end_all(self) -> None:
        """End all agents."""
        for folder in self._folders():
            self.configure(folder.name, None)
        deadline_ms = self._clock.now_ms() + END_MAX_MS + 5_000
        while any(self.alive(folder.name) for folder in self._folders()) and self._clock.now_ms() < deadline_ms:
            self.tend(tuple)
            self._clock.sleep(0.2)
        self.tend(tuple)

    def _tend_others(self) -> None:
        """Inspect the records of other machines that share the folder, and of the local machine under a former name."""
        root = self._layout.agents_of_all
        other_folders = [folder for folder in root.iterdir() if folder != self._layout.agents] if root.is_dir() else []
        try:
            with wrap_errors("look at the agents of", str(root)):
                looked_s = _looked(self._layout.agents)
                for other in other_folders:
                    if _is_ours(other) or looked_s - _last_sign_s(other) > SILENT_S:
                        self._end_former(other)
        except OffsiteError as error:  # the next round tries again
            warned("agents", error=error.id, why=error.message)

    def _end_former(self, folder: Path) -> None:
        """End agents that were started under another name of the local machine; desired agents start under the new
        name. The records are deleted after the last agent ended."""
        living = {path: process for path, process in _noted_in(folder).items() if is_alive(process.identity)}
        for path, process in living.items():
            if not process.told_ms:
                decided("agent_ends", why="the machine has another name now", number=process.number)
                write_json(path, _noted_fields(replace(process, told_ms=self._clock.now_ms())))
                terminate(process.identity)
            elif self._clock.now_ms() - process.told_ms > END_MAX_MS:
                kill(process.identity)
        if not living:
            decided("agents_forgotten", why="none of them is left", host=folder.name)
            shutil.rmtree(folder, ignore_errors=True)

    def _tend(self, uid: str) -> None:
        noted = [self._ended(uid, process) for process in self.processes(uid)]
        desired = self._desired(uid)
        replicas = desired.replicas if desired is not None else 0
        for process in noted:
            bound_log(self._log(uid, process.number))
            if process.number >= replicas:
                self._let_go(uid, process)
        if desired is None:
            if not self.processes(uid):
                shutil.rmtree(self._folder(uid), ignore_errors=True)
            return
        agent = self._launch(uid, desired)
        current = {process.number: process for process in noted if process.number < replicas}
        for number in range(replicas):
            self._begin_if_due(uid, number, current.get(number), agent)
        self._replace_one(uid, current.values(), agent, replicas)

    def _ended(self, uid: str, process: AgentProcess) -> AgentProcess:
        """Return the process, with its end recorded if the process ended."""
        now_ms = self._clock.now_ms()
        if process.ended_ms or is_alive(process.identity):
            if process.told_ms and not process.ended_ms and now_ms - process.told_ms > END_MAX_MS:
                kill(process.identity)
            return process
        is_failure = not process.told_ms and now_ms - process.started_ms < LIVED_MS
        failures = process.failures + 1 if is_failure else 0
        if not process.told_ms:
            warned("agent_ended", why="it was not asked to stop", uid=uid, number=process.number, failures=failures)
        return self._noted(uid, replace(process, ended_ms=now_ms, failures=failures))

    def _let_go(self, uid: str, process: AgentProcess) -> None:
        if process.ended_ms:
            self._path(uid, process.number).unlink(missing_ok=True)
        elif not process.told_ms:
            self._tell(uid, process, why="it is no longer needed")

    def _begin_if_due(self, uid: str, number: int, before: AgentProcess | None, agent: AgentLaunch) -> None:
        now_ms = self._clock.now_ms()
        if before is not None and not before.ended_ms:
            return
        is_same = before is not None and before.runs(agent)
        if before is not None and is_same and 0 <= now_ms - before.ended_ms < before.pause_ms:
            return
        salt = random_id(16)

        def note(identity: ProcessIdentity) -> None:
            fresh = AgentProcess(
                number=number,
                identity=identity,
                salt=salt,
                fingerprint=agent.fingerprint(salt),
                started_ms=now_ms,
                failures=before.failures if before is not None and is_same else 0,
            )
            self._noted(uid, fresh)

        begin(agent.launch, log=self._log(uid, number), note=note)
        decided("agent_begun", why="it is needed", uid=uid, number=number)

    def _replace_one(self, uid: str, processes: Iterable[AgentProcess], agent: AgentLaunch, replicas: int) -> None:
        """Replace one process, only while all others run and are ready: the backup continues meanwhile."""
        living = [process for process in processes if not process.ended_ms]
        old = [process for process in living if not process.runs(agent)]
        now_ms = self._clock.now_ms()
        is_settled = all(now_ms - process.started_ms >= READY_MS for process in living if process not in old)
        if old and len(living) == replicas and is_settled and not any(process.told_ms for process in living):
            self._tell(uid, old[0], why="its spec is no longer declared")

    def _tell(self, uid: str, process: AgentProcess, *, why: str) -> None:
        decided("agent_ends", why=why, uid=uid, number=process.number)
        self._noted(uid, replace(process, told_ms=self._clock.now_ms()))
        terminate(process.identity)

    def _launch(self, uid: str, desired: DesiredAgents) -> AgentLaunch:
        if self.launches is None:
            raise BadResource("accounts.yaml was not read yet", hint="see the problem in the status")
        return self.launches.agent(uid, desired)

    def _noted(self, uid: str, process: AgentProcess) -> AgentProcess:
        write_json(self._path(uid, process.number), _noted_fields(process))
        return process

    def _desired(self, uid: str) -> DesiredAgents | None:
        document = read_json(self._folder(uid) / _WANTED)
        return None if document is None else _parse_agents(document)

    def _folders(self) -> list[Path]:
        paths = self._layout.agents.iterdir() if self._layout.agents.is_dir() else ()
        return sorted(path for path in paths if path.name != _LOOKED)

    def _folder(self, uid: str) -> Path:
        return self._layout.agents / uid

    def _path(self, uid: str, number: int) -> Path:
        return self._folder(uid) / f"{number}.json"

    def _log(self, uid: str, number: int) -> Path:
        return self._folder(uid) / f"{number}.log"


def _looked(folder: Path) -> float:
    """Leave a sign that an operator runs here; return the time of the sign in seconds."""
    sign = folder / _LOOKED
    if not sign.exists() or time.time() - sign.stat().st_mtime > LOOKED_EVERY_S:
        make_private_root(folder)
        sign.touch(mode=0o600)
        os.utime(sign)
    return sign.stat().st_mtime


def _last_sign_s(folder: Path) -> float:
    """Return the newest sign of a machine: an operator's touch, or a log or record of an agent."""
    return max((path.stat().st_mtime for path in folder.rglob("*") if path.is_file()), default=0.0)


def _is_ours(folder: Path) -> bool:
    """Whether all agents in the folder were started in the present boot of the local machine, and hence are visible."""
    noted = _noted_in(folder).values()
    return bool(noted) and all(is_here(process.identity) for process in noted)


def _noted_in(folder: Path, uid: str = "") -> dict[Path, AgentProcess]:
    """Return the recorded processes of a machine, or of one backup on all machines, by path of the record. Raises
    `DamagedObject`."""
    pattern = f"*/{uid}/[0-9]*.json" if uid else "*/[0-9]*.json"
    documents = {path: read_json(path) for path in sorted(folder.glob(pattern))}
    return {path: _process(document) for path, document in documents.items() if document is not None}


def _noted_fields(process: AgentProcess) -> Mapping[str, JsonValue]:
    return {
        "number": process.number,
        "holder": dict(process.identity.fields),
        "salt": process.salt,
        "fingerprint": process.fingerprint,
        "started_ms": process.started_ms,
        "told_ms": process.told_ms,
        "ended_ms": process.ended_ms,
        "failures": process.failures,
    }


def _fields(agents: DesiredAgents) -> dict[str, str | int]:
    return {
        "replicas": agents.replicas,
        "template": agents.template.model_dump_json(by_alias=True),
        "account": agents.place.account,
        "repository": agents.place.repository,
        "cluster": agents.cluster,
        "maximum_retention": agents.maximum_retention,
        "minimum_restorable": agents.minimum_restorable,
        "identity": agents.identity,
    }


def _parse_agents(document: JsonObject) -> DesiredAgents:
    return DesiredAgents(
        replicas=document.count("replicas"),
        template=AgentTemplate.model_validate_json(document.text("template")),
        place=RepositoryPlace(account=document.text("account"), repository=document.text("repository")),
        cluster=document.text("cluster"),
        maximum_retention=document.optional_text("maximum_retention") or "",
        minimum_restorable=document.optional_text("minimum_restorable") or "",
        identity=document.optional_text("identity") or "",
    )


def _process(document: JsonObject) -> AgentProcess:
    return AgentProcess(
        number=document.count("number"),
        identity=ProcessIdentity.of(dict(document.text_map("holder"))),
        salt=document.text("salt"),
        fingerprint=document.text("fingerprint"),
        started_ms=document.count("started_ms"),
        told_ms=document.count("told_ms"),
        ended_ms=document.count("ended_ms"),
        failures=document.count("failures"),
    )
