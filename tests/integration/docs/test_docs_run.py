"""The front page, the tutorial and the how-tos do what they say. The how-tos go on where the tutorial ends."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from offsite.cli.wiring import connect
from offsite.engine.settings import SparkChoice
from offsite.sandbox import Sandbox
from offsite.sandbox.settings import free_ports
from tests.integration.docs.page import Command, commands, is_shown, run
from tests.shared_brokers import running
from tests.shared_spark import end_shared_spark
from tests.spark_cluster import QUICK_JVMS, bare_environment, spark_cluster

HOW_TOS = (
    *("prove", "table", "other-tools", "strimzi", "choose", "settings", "expensive", "month-ends", "checkpoints"),
    *("bad-deploy", "cluster-gone", "move", "deleted-topic", "groups"),
)
"""In an order in which no page spoils the cluster for the next one."""
SPARK_PAGE = "spark-cluster"
LONG = (
    "bad-deploy",
    "prove",
    "table",
    "choose",
    "settings",
    "expensive",
    "month-ends",
    "checkpoints",
    "cluster-gone",
    "move",
    "deleted-topic",
    "groups",
    "other-tools",
    "strimzi",
)
"""With the long tests."""

pytestmark = pytest.mark.timeout(600)  # up to four JVMs a page


@dataclass(frozen=True, slots=True, kw_only=True)
class Tutorial:
    """What it left behind: its folder, and its broker, which runs again."""

    folder: Path
    bootstrap: str
    port: int


@pytest.fixture(scope="module")
def tutorial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tutorial]:
    folder, (port,) = tmp_path_factory.mktemp("tutorial"), free_ports(1)
    sandbox = Sandbox(folder / "kafka")
    try:
        _check("docs/tutorial.md", folder, tmp_path_factory.mktemp("steps"), {}, port=port)
        assert sandbox.status() is None
        yield Tutorial(folder=folder, bootstrap=sandbox.start(owned=True).bootstrap, port=port)
    finally:
        sandbox.stop()


@pytest.fixture(scope="module")
def other_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One that no other test has left topics or groups in."""
    with running(tmp_path_factory.mktemp("new-cluster")) as (_, info):
        yield info.bootstrap


@pytest.fixture
def new_cluster(other_broker: str) -> Iterator[str]:
    """A cluster without topics."""
    yield other_broker
    admin = connect(other_broker, None).admin
    admin.delete_topics([name for name, topic in admin.topics().items() if not topic.internal])


@pytest.fixture
def tutorial_topics(tutorial: Tutorial) -> Iterator[None]:
    """None but those of the tutorial stay there: the page of deleted topics makes one of its own."""
    yield
    admin = connect(tutorial.bootstrap, None).admin
    admin.delete_topics([name for name in admin.topics() if name.startswith("payments-")])


def test_the_front_page_does_what_it_says(tmp_path: Path) -> None:
    folder, steps, (port,) = tmp_path / "tour", tmp_path / "steps", free_ports(1)
    folder.mkdir()
    steps.mkdir()
    try:
        _check("README.md", folder, steps, {}, port=port, skip=2)
    finally:
        Sandbox(folder / "kafka").stop()


@pytest.mark.soak
def test_the_tutorial_does_what_it_says(tutorial: Tutorial) -> None:
    assert (tutorial.folder / "backups").is_dir()


@pytest.mark.usefixtures("tutorial_topics")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.soak] if name in LONG else []) for name in HOW_TOS]
)
def test_a_how_to_does_what_it_says(name: str, tutorial: Tutorial, new_cluster: str, tmp_path: Path) -> None:
    folder, steps = tmp_path / "tour", tmp_path / "steps"
    steps.mkdir()
    shutil.copytree(tutorial.folder / "backups", folder / "backups")
    brokers = {"OFFSITE_BOOTSTRAP": tutorial.bootstrap, "NEW": new_cluster}

    _check(f"docs/how-to/{name}.md", folder, steps, {"OFFSITE_REPO": "backups", **brokers}, port=tutorial.port)


@pytest.mark.soak
@pytest.mark.usefixtures("tutorial_topics")
@pytest.mark.parametrize("history", ["", " --group-history"])
@pytest.mark.parametrize("offsets", ["preserve", "translate"])
def test_a_deleted_topic_comes_back_with_its_groups(
    offsets: str, history: str, tutorial: Tutorial, tmp_path: Path
) -> None:
    """The commands of the page, with each kind of offsets, and in a backup with and without the history of groups."""
    folder, steps = tmp_path / "tour", tmp_path / "steps"
    folder.mkdir()
    steps.mkdir()
    page = [
        replace(each, text=each.text.replace("--groups all", f"--groups all --offsets {offsets}"), shown=())
        for each in commands("docs/how-to/deleted-topic.md")
    ]
    first = f"offsite backup run --backup shop --topics 'orders,payments-*'{history} --repo backups"
    begin = [Command(text=text, shown=(), exit_code=0) for text in ("offsite init backups", first)]
    environment = {"OFFSITE_REPO": "backups", "OFFSITE_BOOTSTRAP": tutorial.bootstrap}
    ran = run([*begin, *page], folder, steps, environment, port=tutorial.port)
    assert [each.exit_code for each in ran] == [each.exit_code for each in (*begin, *page)], ran[-1].output
    (restored,) = (each.output for each in ran if "restore run" in each.command.text)
    assert "1 group is set: 3 offsets set" in restored, restored
    assert "orders was deleted at the source: its groups come from commit" in restored
    assert ("at their offsets" in restored) == (offsets == "preserve")


@pytest.mark.soak
def test_the_page_of_spark_clusters_does_what_it_says(tutorial: Tutorial, tmp_path: Path) -> None:
    """From what `make setup` made to a backup by three workers without offsite."""
    steps, cluster_folder = tmp_path / "steps", tmp_path / "cluster"
    steps.mkdir()
    cluster_folder.mkdir()
    end_shared_spark()
    with spark_cluster(cluster_folder, environments=[bare_environment(cluster_folder)] * 3) as cluster:
        settings = {**QUICK_JVMS, "spark.driver.host": "127.0.0.1", "spark.executor.memory": "512m"}
        environment = {
            "OFFSITE_REPO": "backups",
            "OFFSITE_BOOTSTRAP": tutorial.bootstrap,
            **SparkChoice(master=cluster.url, conf=settings).environment(),
        }
        _check(f"docs/how-to/{SPARK_PAGE}.md", tutorial.folder, steps, environment, port=tutorial.port)
        executors = [each for folder in cluster.folders for each in (folder / "work").glob("app-*/*/offsite.pex")]
    assert {each.parents[3] for each in executors} == set(cluster.folders), "all three had something to do"


def test_every_page_with_commands_is_run() -> None:
    root = Path(__file__).parents[3]
    pages = {str(page.relative_to(root)) for page in root.glob("docs/**/*.md") if commands(str(page.relative_to(root)))}

    assert pages == {"docs/tutorial.md", *(f"docs/how-to/{name}.md" for name in (*HOW_TOS, SPARK_PAGE))}


def _check(page: str, folder: Path, steps: Path, environment: Mapping[str, str], *, port: int, skip: int = 0) -> None:
    """Run `page` but for its first `skip` commands: all of them ran, ended and printed as shown."""
    wanted = commands(page)[skip:]
    ran = run(wanted, folder, steps, environment, port=port)
    for each in ran:
        said = f"{page}: {each.command.text}\nexit code {each.exit_code}\n{each.output}"
        assert each.exit_code == each.command.exit_code, said
        assert is_shown(each, folder, port=port), f"{said}\n-- the page shows --\n" + "\n".join(each.command.shown)
    assert len(ran) == len(wanted)
