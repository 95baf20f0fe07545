from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from offsite.model.errors import BadOption, BadResource
from offsite.operator.core.accounts import Accounts
from offsite.operator.core.files import FolderLayout
from offsite.operator.core.processes import Launches, parse_place_environments
from offsite.operator.decide.desired import Account, DesiredAgents, RepositoryPlace
from offsite.operator.kubernetes.agents import AgentPods, agent_deployment, parse_agents
from offsite.operator.kubernetes.api import ResourceReference
from offsite.operator.resources.backup import AgentTemplate, Expiry, StrimziListener
from offsite.operator.work.expire import expiry_policy
from offsite.upkeep.retention.policy import RetentionPolicy

ONE, TWO = (
    RepositoryPlace(account="one", repository="s3://one/a"),
    RepositoryPlace(account="two", repository="s3://two/b"),
)
NAMED = ResourceReference(kind="Backup", namespace="default", name="shop", uid="uid")
INHERITED = {"PATH": "/bin", "AWS_REGION": "inherited", "OFFSITE_BOOTSTRAP": "elsewhere:9092"}


@pytest.fixture
def launches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Launches:
    for name, value in INHERITED.items():
        monkeypatch.setenv(name, value)
    layout = FolderLayout(root=tmp_path)
    layout.cluster("shop").parent.mkdir()
    layout.cluster("shop").write_text("bootstrap.servers=localhost:9092\n")
    accounts = [
        Account(
            name=name,
            endpoint="",
            opens=("s3://one", "s3://two"),
            environment=(("AWS_SECRET_ACCESS_KEY", f"secret-{name}"),),
        )
        for name in ("one", "two")
    ]
    return Launches(layout=layout, accounts=Accounts(listed=accounts, inherited={}), command=("offsite",))


def wanted(**template: object) -> DesiredAgents:
    return DesiredAgents(replicas=1, template=AgentTemplate.model_validate(template), place=ONE, cluster="shop")


def test_a_job_over_two_accounts_opens_each_repository_by_its_own(launches: Launches) -> None:
    launch = launches.expiry("uid", [ONE, TWO], Expiry(), is_deletion=True)

    assert launch.argv == (
        *("offsite", "operator", "expire", "--uid", "uid"),
        *("--place", "s3://one/a", "--place", "s3://two/b", "--delete"),
    )
    assert parse_place_environments(launch.environment) == [
        {"AWS_SECRET_ACCESS_KEY": "secret-one"},
        {"AWS_SECRET_ACCESS_KEY": "secret-two"},
    ]


def test_two_stores_whose_repositories_have_one_url_are_two_places(launches: Launches) -> None:
    """The variables of an account may name the endpoint."""
    places = [ONE, RepositoryPlace(account="two", repository=ONE.repository), ONE]
    launch = launches.expiry("uid", places, Expiry(), is_deletion=True)

    assert launch.argv[-5:] == ("--place", "s3://one/a", "--place", "s3://one/a", "--delete")
    assert parse_place_environments(launch.environment) == [
        {"AWS_SECRET_ACCESS_KEY": "secret-one"},
        {"AWS_SECRET_ACCESS_KEY": "secret-two"},
    ]


def test_a_job_of_one_account_has_its_variables_alone(launches: Launches) -> None:
    launch = launches.expiry("uid", [ONE], Expiry(), is_deletion=False)

    assert launch.environment["AWS_SECRET_ACCESS_KEY"] == "secret-one"
    assert parse_place_environments(launch.environment) == []
    assert "AWS_REGION" not in launch.environment


def test_a_job_is_told_what_is_let_go_and_what_stays(launches: Launches) -> None:
    asked = Expiry.model_validate({"maximumRetention": "30d", "minimumRestorable": "7d"})
    launch = launches.expiry("uid", [ONE], asked, is_deletion=False)

    assert launch.argv[-4:] == ("--maximum-retention", "30d", "--minimum-restorable", "7d")


def test_agents_are_told_the_retention_that_they_agree_to(launches: Launches) -> None:
    """Not by the ledger: whoever may write into the repository could write it there."""
    asked = replace(wanted(), maximum_retention="30d", minimum_restorable="7d")
    launch = launches.agent("uid", asked).launch

    assert launch.argv[-4:] == ("--maximum-retention", "30d", "--minimum-restorable", "7d")
    assert "--maximum-retention" not in launches.agent("uid", wanted()).launch.argv
    assert parse_agents(agent_deployment(AgentPods(named=NAMED, agents=asked, image="offsite:1"))) == asked
    assert expiry_policy("30d", "7d") == RetentionPolicy(keep_age_ms=30 * 86_400_000, floor_ms=7 * 86_400_000)


def test_an_agent_and_a_job_refuse_a_minimum_above_the_maximum() -> None:
    with pytest.raises(BadOption, match=r"minimumRestorable \(60d\) is longer than maximumRetention \(30d\)"):
        expiry_policy("30d", "60d")
    assert expiry_policy("", "60d") is None


def test_a_folder_has_no_clusters_of_strimzi(launches: Launches) -> None:
    asked = replace(wanted(), strimzi=StrimziListener(name="prod", listener="tls", user="backup"))
    with pytest.raises(BadResource, match=r"spec\.strimzi works in Kubernetes alone"):
        launches.check(asked)


def test_no_secret_shows_when_a_launch_is_printed(launches: Launches) -> None:
    found = [launches.agent("uid", wanted()), launches.expiry("uid", [ONE, TWO], Expiry(), is_deletion=False)]

    assert "secret" not in repr(found)


def test_an_agent_is_sent_to_its_cluster_and_no_other(launches: Launches) -> None:
    environment = launches.agent("uid", wanted(sparkMaster="local[1]", environment={"TZ": "UTC"})).launch.environment

    assert "OFFSITE_BOOTSTRAP" not in environment
    assert environment["OFFSITE_KAFKA_CONFIG"].endswith("clusters/shop.properties")
    assert (environment["TZ"], environment["OFFSITE_SPARK_MASTER"]) == ("UTC", "local[1]")


def test_an_agent_is_told_which_spark_it_has(launches: Launches, monkeypatch: pytest.MonkeyPatch) -> None:
    conf = {"spark.executor.memory": "2g", "spark.executor.cores": "2"}
    monkeypatch.setenv("OFFSITE_SPARK_MASTER", "yarn")
    monkeypatch.setenv("OFFSITE_SPARK_ARCHIVE", "hdfs:///offsite.tar.gz")
    template = wanted(sparkMaster="yarn", sparkConf=conf, sparkArchive="hdfs:///offsite.tar.gz")
    environment = launches.agent("uid", template).launch.environment

    assert environment["OFFSITE_SPARK_MASTER"] == "yarn"
    assert environment["OFFSITE_SPARK_CONF"].splitlines() == [
        "spark.executor.memory=2g",
        "spark.executor.cores=2",
    ]
    assert environment["OFFSITE_SPARK_ARCHIVE"] == "hdfs:///offsite.tar.gz"


def test_the_operator_says_how_executors_come_by_secrets(launches: Launches, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OFFSITE_SECRETS", "on-executors")

    assert launches.agent("uid", wanted()).launch.environment["OFFSITE_SECRETS"] == "on-executors"


def test_a_fingerprint_tells_changes_and_no_secret(launches: Launches) -> None:
    one, same, other = (launches.agent("uid", wanted(environment={"TZ": value})) for value in "bbc")

    assert one.fingerprint("salt") == same.fingerprint("salt") != other.fingerprint("salt")
    assert one.fingerprint("salt") != one.fingerprint("other")


def test_another_version_of_the_operator_replaces_agents(launches: Launches, monkeypatch: pytest.MonkeyPatch) -> None:
    before = launches.agent("uid", wanted()).fingerprint("salt")
    monkeypatch.setattr("offsite.operator.core.processes.__version__", "99")

    assert launches.agent("uid", wanted()).fingerprint("salt") != before
