"""Agents as processes of this machine: so many for each backup, begun, found again, replaced one after the other.

What they are to do is kept beside what is noted of each, so that they are looked after by any operator of the folder,
also while a repository does not answer. They outlive operators.
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
from offsite.operator.decide.seen import AgentsSeen
from offsite.operator.decide.wanted import AgentsWanted, Place
from offsite.operator.folder.files import locked, read_json, write_json
from offsite.operator.folder.launches import AgentLaunch, Launches
from offsite.operator.folder.layout import FolderLayout
from offsite.operator.resources.backup import AgentTemplate
from offsite.operator.world.processes import begin, bound_log, is_alive, is_here, kill, last_words, tell_to_end
from offsite.repository.restores.process_identity import ProcessIdentity
from offsite.stores.plain_files import make_private_root
from offsite.stores.posix_errors import wrapped

READY_MS = 3_000
"""So long a process runs before it counts: one that cannot start ends within."""
LIVED_MS = 60_000
"""Who ran for so long did not fail at its start: the next one begins at once."""
PAUSE_MAX_MS = 300_000
END_MAX_MS = 45_000
"""A process that was told to end has so long: it needs 30 s at most."""
_WANTED = "wanted.json"
_LOOKED = "looked"
"""A file that an operator of a machine touches once in a while: by the server's clock where the folder is one."""
LOOKED_EVERY_S = 60.0
SILENT_S = 7 * 24 * 3600.0
"""A machine of which no operator looked for so long, and no agent said a word, is gone: one that copies says something
every five minutes. What is noted of its agents goes. Should one run all the same, the lease of its backup holds it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentProcess:
    """What is noted of one. `failures`: how often in a row it ended soon; times in epoch ms, 0 for what was not."""

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
        """From its end to the next one's begin."""
        return min(1000 * 2**self.failures, PAUSE_MAX_MS) if self.failures else 0

    def runs(self, agent: AgentLaunch) -> bool:
        """Whether it is for that."""
        return self.fingerprint == agent.fingerprint(self.salt)


class LocalAgents:
    """The port `Agents`, and `tend`, which does what was configured."""

    def __init__(self, layout: FolderLayout, *, clock: Clock) -> None:
        self._layout, self._clock = layout, clock
        self.launches: Launches | None = None

    def seen(self, uid: str) -> AgentsSeen:
        wanted, now_ms = self._wanted(uid), self._clock.now_ms()
        ready = [
            each
            for each in self.processes(uid)
            if is_alive(each.identity) and not each.told_ms and now_ms - each.started_ms >= READY_MS
        ]
        return AgentsSeen(configured=wanted, ready=len(ready))

    def configure(self, uid: str, agents: AgentsWanted | None) -> None:
        path = self._folder(uid) / _WANTED
        if agents is None:
            path.unlink(missing_ok=True)
        else:
            write_json(path, _fields(agents))

    def alive(self, uid: str) -> int:
        """How many processes there are, however they do."""
        return sum(is_alive(each.identity) for each in self.processes(uid))

    def unseen(self, uid: str) -> int:
        """How many machines that share the folder have noted of it that do not say that it has ended."""
        found = _noted_in(self._layout.agents_of_all, uid)
        return sum(not each.ended_ms and not is_here(each.identity) for each in found.values())

    def problem(self, uid: str) -> str:
        """What the first of those said last that end again and again; empty: all go on."""
        for each in self.processes(uid):
            if each.failures and self._clock.now_ms() - each.started_ms < LIVED_MS + each.pause_ms:
                said = last_words(self._log(uid, each.number)) or "it said nothing"
                return f"process {each.number} ended {each.failures} times in a row: {said}"
        return ""

    def processes(self, uid: str) -> list[AgentProcess]:
        found = (read_json(path) for path in sorted(self._folder(uid).glob("[0-9]*.json")))
        return [_process(item) for item in found if item is not None]

    def tend(self, known: Callable[[], Collection[str]]) -> None:
        """One look at all processes: end, begin and replace. `known`: the uids of the resources that there are, asked
        behind what runs; of others none runs any more."""
        folders = self._folders()
        try:
            uids = known()
        except OffsiteError as error:  # then nothing is taken for gone
            warned("agents", error=error.id, why=error.message)
            uids = [each.name for each in folders]
        for folder in folders:
            if folder.name not in uids:
                self.configure(folder.name, None)
            try:
                with locked(self._layout.lock):
                    self._tend(folder.name)
            except OffsiteError as error:  # the others are looked after all the same
                warned("agents", error=error.id, why=error.message, uid=folder.name)
        self._tend_others()

    def end_all(self) -> None:
        """Let none run any more."""
        for folder in self._folders():
            self.configure(folder.name, None)
        deadline_ms = self._clock.now_ms() + END_MAX_MS + 5_000
        while any(self.alive(each.name) for each in self._folders()) and self._clock.now_ms() < deadline_ms:
            self.tend(tuple)
            self._clock.sleep(0.2)
        self.tend(tuple)

    def _tend_others(self) -> None:
        """Machines that share the folder, and this one under a former name."""
        root = self._layout.agents_of_all
        others = [each for each in root.iterdir() if each != self._layout.agents] if root.is_dir() else []
        try:
            with wrapped("look at the agents of", str(root)):
                looked_s = _looked(self._layout.agents)
                for other in others:
                    if _is_ours(other) or looked_s - _last_sign_s(other) > SILENT_S:
                        self._end_former(other)
        except OffsiteError as error:  # it is looked at again
            warned("agents", error=error.id, why=error.message)

    def _end_former(self, folder: Path) -> None:
        """End agents that were begun under another name of this machine; those that are to run are begun under the new
        one. What is noted goes when none of them is left."""
        living = {path: each for path, each in _noted_in(folder).items() if is_alive(each.identity)}
        for path, each in living.items():
            if not each.told_ms:
                decided("agent_ends", why="the machine has another name now", number=each.number)
                write_json(path, _noted_fields(replace(each, told_ms=self._clock.now_ms())))
                tell_to_end(each.identity)
            elif self._clock.now_ms() - each.told_ms > END_MAX_MS:
                kill(each.identity)
        if not living:
            decided("agents_forgotten", why="none of them is left", host=folder.name)
            shutil.rmtree(folder, ignore_errors=True)

    def _tend(self, uid: str) -> None:
        noted = [self._ended(uid, each) for each in self.processes(uid)]
        wanted = self._wanted(uid)
        replicas = wanted.replicas if wanted is not None else 0
        for each in noted:
            bound_log(self._log(uid, each.number))
            if each.number >= replicas:
                self._let_go(uid, each)
        if wanted is None:
            if not self.processes(uid):
                shutil.rmtree(self._folder(uid), ignore_errors=True)
            return
        agent = self._launch(uid, wanted)
        kept = {each.number: each for each in noted if each.number < replicas}
        for number in range(replicas):
            self._begin_if_due(uid, number, kept.get(number), agent)
        self._replace_one(uid, kept.values(), agent, replicas)

    def _ended(self, uid: str, process: AgentProcess) -> AgentProcess:
        """The process, with its end noted if it has ended."""
        now_ms = self._clock.now_ms()
        if process.ended_ms or is_alive(process.identity):
            if process.told_ms and not process.ended_ms and now_ms - process.told_ms > END_MAX_MS:
                kill(process.identity)
            return process
        is_failure = not process.told_ms and now_ms - process.started_ms < LIVED_MS
        failures = process.failures + 1 if is_failure else 0
        if not process.told_ms:
            warned("agent_ended", why="it was not told to", uid=uid, number=process.number, failures=failures)
        return self._noted(uid, replace(process, ended_ms=now_ms, failures=failures))

    def _let_go(self, uid: str, process: AgentProcess) -> None:
        if process.ended_ms:
            self._path(uid, process.number).unlink(missing_ok=True)
        elif not process.told_ms:
            self._tell(uid, process, why="it is not wanted any more")

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
        decided("agent_begun", why="it is wanted", uid=uid, number=number)

    def _replace_one(self, uid: str, kept: Iterable[AgentProcess], agent: AgentLaunch, replicas: int) -> None:
        """Only while all others run, and have for a moment: the backup goes on meanwhile."""
        living = [each for each in kept if not each.ended_ms]
        old = [each for each in living if not each.runs(agent)]
        now_ms = self._clock.now_ms()
        is_settled = all(now_ms - each.started_ms >= READY_MS for each in living if each not in old)
        if old and len(living) == replicas and is_settled and not any(each.told_ms for each in living):
            self._tell(uid, old[0], why="it runs for what is not declared any more")

    def _tell(self, uid: str, process: AgentProcess, *, why: str) -> None:
        decided("agent_ends", why=why, uid=uid, number=process.number)
        self._noted(uid, replace(process, told_ms=self._clock.now_ms()))
        tell_to_end(process.identity)

    def _launch(self, uid: str, wanted: AgentsWanted) -> AgentLaunch:
        if self.launches is None:
            raise BadResource("accounts.yaml was not read yet", hint="see what is wrong with it in the status")
        return self.launches.agent(uid, wanted)

    def _noted(self, uid: str, process: AgentProcess) -> AgentProcess:
        write_json(self._path(uid, process.number), _noted_fields(process))
        return process

    def _wanted(self, uid: str) -> AgentsWanted | None:
        item = read_json(self._folder(uid) / _WANTED)
        return None if item is None else _agents_wanted(item)

    def _folders(self) -> list[Path]:
        found = self._layout.agents.iterdir() if self._layout.agents.is_dir() else ()
        return sorted(each for each in found if each.name != _LOOKED)

    def _folder(self, uid: str) -> Path:
        return self._layout.agents / uid

    def _path(self, uid: str, number: int) -> Path:
        return self._folder(uid) / f"{number}.json"

    def _log(self, uid: str, number: int) -> Path:
        return self._folder(uid) / f"{number}.log"


def _looked(folder: Path) -> float:
    """Leave a sign that an operator looks here; its time, in seconds."""
    sign = folder / _LOOKED
    if not sign.exists() or time.time() - sign.stat().st_mtime > LOOKED_EVERY_S:
        make_private_root(folder)
        sign.touch(mode=0o600)
        os.utime(sign)
    return sign.stat().st_mtime


def _last_sign_s(folder: Path) -> float:
    """The newest one of a machine: a look, or something that an agent said or that was noted of it."""
    return max((path.stat().st_mtime for path in folder.rglob("*") if path.is_file()), default=0.0)


def _is_ours(folder: Path) -> bool:
    """Whether agents there were begun on this boot of this machine, so that nothing of them is out of sight."""
    noted = _noted_in(folder).values()
    return bool(noted) and all(is_here(each.identity) for each in noted)


def _noted_in(folder: Path, uid: str = "") -> dict[Path, AgentProcess]:
    """All processes of a machine, or those of one backup of all machines, by where they are noted. Raises
    `DamagedObject`."""
    pattern = f"*/{uid}/[0-9]*.json" if uid else "*/[0-9]*.json"
    found = {path: read_json(path) for path in sorted(folder.glob(pattern))}
    return {path: _process(item) for path, item in found.items() if item is not None}


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


def _fields(agents: AgentsWanted) -> dict[str, str | int]:
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


def _agents_wanted(item: JsonObject) -> AgentsWanted:
    return AgentsWanted(
        replicas=item.count("replicas"),
        template=AgentTemplate.model_validate_json(item.text("template")),
        place=Place(account=item.text("account"), repository=item.text("repository")),
        cluster=item.text("cluster"),
        maximum_retention=item.optional_text("maximum_retention") or "",
        minimum_restorable=item.optional_text("minimum_restorable") or "",
        identity=item.optional_text("identity") or "",
    )


def _process(item: JsonObject) -> AgentProcess:
    return AgentProcess(
        number=item.count("number"),
        identity=ProcessIdentity.of(dict(item.text_map("holder"))),
        salt=item.text("salt"),
        fingerprint=item.text("fingerprint"),
        started_ms=item.count("started_ms"),
        told_ms=item.count("told_ms"),
        ended_ms=item.count("ended_ms"),
        failures=item.count("failures"),
    )
