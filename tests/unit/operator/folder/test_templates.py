"""What a template of agents may choose: sizes and numbers. The rest is the operator's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from offsite.model.errors import BadResource
from offsite.operator.core.accounts import Accounts
from offsite.operator.core.files import FolderLayout
from offsite.operator.core.processes import Launches
from offsite.operator.decide.desired import Account, DesiredAgents, RepositoryPlace, resolve_backup
from offsite.operator.folder.edits import apply
from offsite.operator.resources.backup import SPARK_NAMES, AgentTemplate, Backup
from offsite.operator.resources.definition import BACKUP, resource_definition
from offsite.operator.resources.model import json_schema
from offsite.operator.resources.pod_template import VARIABLE_NAMES
from tests.unit.operator.folder.home import QUICK, Home, opened_home, resource
from tests.worlds.operator.world import new_backup

PLACE = RepositoryPlace(account="main", repository="/backups")

FORBIDDEN = [
    *(
        {"sparkConf": {name: "x"}}
        for name in (
            *("spark.executorEnv.LD_PRELOAD", "spark.jars", "spark.jars.packages", "spark.plugins", "spark.master"),
            *("spark.archives", "spark.submit.pyFiles", "spark.pyspark.python", "spark.driver.extraJavaOptions"),
            *("spark.executor.extraJavaOptions", "spark.hadoop.fs.defaultFS", "spark.eventLog.dir", "spark.local.dir"),
            *("spark.extraListeners", "spark.driver.extraClassPath", "spark.ui.enabled", "spark.authenticate"),
            *("spark.kubernetes.container.image", "spark.executor.Memory", "spark.offsite.python"),
        )
    ),
    *(
        {"environment": {name: "x"}}
        for name in (
            *("SSL_CERT_FILE", "SSL_CERT_DIR", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "NO_PROXY", "OPENSSL_CONF"),
            *("SSLKEYLOGFILE", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "LD_PRELOAD", "PYTHONPATH", "JAVA_TOOL_OPTIONS"),
            *("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "KRB5_CONFIG", "AWS_ENDPOINT_URL", "OFFSITE_SECRETS", "PATH"),
            *("TMPDIR", "GCONV_PATH", "RES_OPTIONS", "MY_OWN"),
        )
    ),
    {"sparkConf": {"spark.executor.memory": "2g -javaagent:x"}},
    {"sparkConf": {"spark.executor.cores": "$(id)"}},
    *({"environment": {"TZ": value}} for value in ("/etc/shadow", ":/dev/tty", "../../tmp/x", "UTC\0", "a\nb")),
    {"environment": {"LC_ALL": "/tmp/locale"}},
]
ALLOWED: dict[str, Any] = {
    "sparkConf": {"spark.executor.memory": "2g", "spark.memory.fraction": "0.6", "spark.sql.shuffle.partitions": "8"},
    "environment": {"TZ": "Europe/Zurich", "LC_ALL": "C.UTF-8"},
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    with opened_home(tmp_path, monkeypatch) as found:
        yield found


def declared(template: dict[str, Any]) -> dict[str, Any]:
    return resource(agents={"replicas": 1, "template": template})


def name_in(template: dict[str, Any]) -> str:
    ((name, *_),) = template.values()
    return str(name)


@pytest.mark.parametrize("template", FORBIDDEN, ids=name_in)
def test_what_chooses_code_or_leads_secrets_elsewhere_is_refused_by_name(home: Home, template: dict[str, Any]) -> None:
    with pytest.raises(BadResource, match=name_in(template)):
        apply(home.layout, yaml.safe_dump(declared(template)), source="x.yaml")
    with pytest.raises(BadResource, match=name_in(template)) as raised:
        resolve_backup(
            new_backup("aaaaaaaa", 1, agents={"template": template}), (Account(name="main", endpoint="/backups"),)
        )
    assert "operator" in raised.value.message + raised.value.hint


def test_a_file_that_chooses_them_begins_nothing(home: Home) -> None:
    home.put("shop.yaml", declared({"environment": {"LD_PRELOAD": "/tmp/x.so"}}))
    operator = home.operator(queue=QUICK)
    operator.look()

    assert "LD_PRELOAD" in home.conditions("shop")["MisconfiguredBackup"]
    assert operator.records.find("Backup", "shop") is None


@pytest.mark.parametrize(("field", "names"), [("sparkConf", SPARK_NAMES), ("environment", VARIABLE_NAMES)])
def test_editors_and_kubernetes_know_the_names(field: str, names: tuple[str, ...]) -> None:
    schema = Draft202012Validator(json_schema(Backup))
    assert schema.is_valid(declared(ALLOWED))
    assert not schema.is_valid(declared({field: {"spark.jars": "x"}}))
    (version,) = resource_definition(BACKUP)["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    template = spec["agents"]["properties"]["template"]["properties"]
    (rule,) = [each["rule"] for each in template[field]["x-kubernetes-validations"] if " in " in each["rule"]]
    assert all(f"'{name}'" in rule for name in names)


def test_sizes_and_numbers_are_allowed(home: Home) -> None:
    apply(home.layout, yaml.safe_dump(declared(ALLOWED)), source="x.yaml")


def launches(tmp_path: Path) -> Launches:
    layout = FolderLayout(root=tmp_path)
    layout.cluster("shop").parent.mkdir()
    layout.cluster("shop").write_text("bootstrap.servers=localhost:9092\n")
    account = Account(name="main", endpoint="/backups")
    return Launches(layout=layout, accounts=Accounts(listed=[account], inherited={}), command=("offsite",))


def agents(**template: Any) -> DesiredAgents:
    return DesiredAgents(replicas=1, template=AgentTemplate.model_validate(template), place=PLACE, cluster="shop")


@pytest.mark.parametrize(
    "template",
    [{"sparkMaster": "spark://evil:7077"}, {"sparkMaster": "local-cluster[1,1,1]"}, {"sparkArchive": "https://evil/x"}],
    ids=str,
)
def test_a_spark_that_is_not_the_operator_s_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, template: dict[str, str]
) -> None:
    found = launches(tmp_path)
    ((_, value),) = template.items()
    with pytest.raises(BadResource, match=r"OFFSITE_SPARK_(MASTER|ARCHIVE)"):
        found.agent("uid", agents(**template))

    for name in ("OFFSITE_SPARK_MASTER", "OFFSITE_SPARK_ARCHIVE"):
        monkeypatch.setenv(name, value)
    found.agent("uid", agents(**template))


@pytest.mark.parametrize("master", ["local[\0]", "local[2]\nx", "local[2] --jars x", "local[x]", "local[2", "local["])
def test_a_master_that_only_begins_like_this_machine_s_is_refused(tmp_path: Path, master: str) -> None:
    with pytest.raises(BadResource, match="OFFSITE_SPARK_MASTER"):
        launches(tmp_path).agent("uid", agents(sparkMaster=master))


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local[*,4]", "local[2, 4]"])
def test_cores_of_this_machine_are_for_a_resource_to_choose(tmp_path: Path, master: str) -> None:
    told = launches(tmp_path).agent("uid", agents(sparkMaster=master)).launch.environment
    assert told["OFFSITE_SPARK_MASTER"] == master


@pytest.mark.parametrize("template", [{"environment": {"TZ": "a\0"}}, {"sparkMaster": "local[\0]"}], ids=str)
def test_a_nul_in_a_template_is_told_and_stops_nobody_else(home: Home, template: dict[str, Any]) -> None:
    home.put("evil.yaml", resource("evil", cluster="shop", agents={"replicas": 1, "template": template}))
    home.put("shop.yaml", resource(agents={"replicas": 1}))
    operator = home.operator(queue=QUICK)
    for _ in range(3):
        operator.look()
        home.pass_s(11)

    assert "spec.agents.template" in home.conditions("evil")["MisconfiguredBackup"]
    assert len(home.lows(home.record(operator, "shop").uid)) == 1


def test_an_agent_has_the_operator_s_settings_of_spark_below_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OFFSITE_SPARK_PROPERTIES", "/etc/offsite/spark.properties")
    monkeypatch.setenv("OFFSITE_SPARK_CONF", "spark.local.dir=/big\nspark.executor.memory=1g")
    monkeypatch.setenv("OFFSITE_SPARK_MASTER", "spark://own:7077")
    monkeypatch.setenv("OFFSITE_SPARK_ARCHIVE", "/opt/offsite.pex")
    found, conf = launches(tmp_path), {"spark.executor.memory": "2g"}
    own = found.agent("uid", agents(sparkMaster="spark://own:7077", sparkConf=conf)).launch.environment
    here = found.agent("uid", agents(sparkConf=conf)).launch.environment

    for environment in (own, here):
        assert environment["OFFSITE_SPARK_PROPERTIES"] == "/etc/offsite/spark.properties"
        assert environment["OFFSITE_SPARK_CONF"].splitlines()[-1] == "spark.executor.memory=2g"
        assert environment["OFFSITE_SPARK_CONF"].splitlines()[0] == "spark.local.dir=/big"
    assert (own["OFFSITE_SPARK_MASTER"], own["OFFSITE_SPARK_ARCHIVE"]) == ("spark://own:7077", "/opt/offsite.pex")
    assert "OFFSITE_SPARK_MASTER" not in here, "the cores of the machine, unless a template says more"
    assert "OFFSITE_SPARK_ARCHIVE" not in here


def test_an_agent_that_was_noted_with_a_forbidden_template_begins_no_more(tmp_path: Path) -> None:
    with pytest.raises(BadResource, match="LD_PRELOAD"):
        launches(tmp_path).agent("uid", agents(environment={"LD_PRELOAD": "x"}))
