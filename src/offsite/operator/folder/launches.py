"""Command lines and environments of the processes of a folder. Secrets go through the environment; arguments name
repositories and uids."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from offsite.engine.sessions.master import runs_in_one_jvm
from offsite.model.errors import BadResource
from offsite.model.machine import OWN_PYTHON
from offsite.model.version import __version__
from offsite.operator.decide.wanted import DesiredAgents, RepositoryPlace
from offsite.operator.folder.accounts import Accounts, select_store_variables, variables_of
from offsite.operator.folder.files import read_whole
from offsite.operator.folder.layout import FolderLayout
from offsite.operator.resources.backup import Expiry
from offsite.operator.world.processes import ProcessLaunch

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
    """`command`: the command `offsite` on the local machine."""

    layout: FolderLayout
    accounts: Accounts
    command: Sequence[str] = OFFSITE

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
        """Return the file with which agents reach their cluster. Raises `BadResource` if it does not exist."""
        return self.reach(cluster)

    def reach(self, cluster: str) -> bytes:
        """Return the file that says how to reach a cluster from here. Raises `BadResource` if it does not exist."""
        path = self.layout.cluster(cluster)
        if (data := read_whole(path)) is None:
            raise BadResource(f"there is no cluster {cluster!r}", hint=f"write its bootstrap.servers into {path}")
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
