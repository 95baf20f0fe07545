"""Which Spark was chosen, and what is overruled."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from offsite.engine.settings import (
    FIRM_SETTINGS,
    SparkChoice,
    common_settings,
    encryption_settings,
    is_private,
    light_jvm_settings,
    merge_settings,
    settings_of,
    split_secrets,
)
from offsite.model.errors import BadOption
from offsite.model.options import SecretsChoice


def test_settings_of_a_file_give_way_to_those_of_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "spark.properties"
    file.write_text(
        "# ours\nspark.executor.memory  2g\nspark.executor.cores=2\nspark.driver.extraJavaOptions -Da=b -Dc=d\n"
    )
    assert settings_of(file, ["spark.executor.memory=4g", "spark.executorEnv.A=b=c"]) == {
        "spark.executor.memory": "4g",
        "spark.executor.cores": "2",
        "spark.driver.extraJavaOptions": "-Da=b -Dc=d",
        "spark.executorEnv.A": "b=c",
    }


@pytest.mark.parametrize(("name", "is_told"), [("spark.authenticate.secret", True), ("spark.executor.memory", False)])
def test_a_file_with_a_secret_that_everybody_can_read_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, *, is_told: bool
) -> None:
    (file := tmp_path / "spark.properties").write_text(f"{name}=hunter2\n")
    for mode in (0o640, 0o644):
        file.chmod(mode)
        settings_of(file, [])
        assert ("readable_by_others" in caplog.text) is (is_told and mode == 0o644)
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize("pair", ["spark.executor.memory", "executor.memory=2g", "=2g", "", "spark"])
def test_what_is_no_setting_of_spark_is_refused(pair: str) -> None:
    with pytest.raises(BadOption, match="not a Spark setting"):
        settings_of(None, [pair])


def test_a_line_of_a_file_that_is_no_setting_of_spark_is_named(tmp_path: Path) -> None:
    file = tmp_path / "spark.properties"
    file.write_text("\nspark.a=1\nsasl.password=hunter2\n")
    with pytest.raises(BadOption, match=r"spark.properties:3: 'sasl.password'") as raised:
        settings_of(file, [])
    assert "hunter2" not in str(raised.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="nowhere"):
        settings_of(tmp_path / "nowhere", [])


def test_what_offsite_must_set_wins_and_is_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="offsite")
    asked = {"spark.speculation": "true", "spark.task.maxFailures": "1", "spark.driver.memory": "2g"}
    settings = merge_settings(common_settings(), asked)
    assert settings["spark.driver.memory"] == "2g"
    assert {name: settings[name] for name in FIRM_SETTINGS} == FIRM_SETTINGS
    assert sum("setting_overruled" in line for line in caplog.messages) == 2
    assert any("setting=spark.speculation asked=true used=false" in line for line in caplog.messages)


@pytest.mark.parametrize(
    ("settings", "private"),
    [
        ({}, False),
        ({"spark.driver.host": "10.0.0.1", "spark.authenticate": "true"}, False),
        ({"spark.driver.host": "10.0.0.1", "spark.network.crypto.enabled": "true"}, False),
        ({"spark.driver.host": "10.0.0.1", "spark.authenticate": "true", "spark.network.crypto.enabled": "true"}, True),
        ({"spark.driver.host": "10.0.0.1", "spark.ssl.rpc.enabled": "TRUE"}, True),
        ({"spark.driver.host": "127.0.0.1"}, True),
        ({"spark.driver.host": "localhost.example.com"}, False),
    ],
)
def test_only_an_encrypted_network_or_this_machine_is_private(settings: dict[str, str], private: bool) -> None:
    assert is_private(settings) is private


@pytest.mark.parametrize(
    ("name", "redaction", "hidden"),
    [
        ("spark.authenticate.secret", "", True),
        ("spark.hadoop.fs.s3a.access.key", "", True),
        ("spark.hadoop.fs.azure.account.key.mine", "", True),
        ("spark.hadoop.fs.azure.AccountKey", "", True),
        ("spark.ssl.keyPassword", "mine", True),
        ("spark.mine", "mine", True),
        ("spark.mine", "Mine", False),
        ("spark.mine", "(?i)MINE", True),
        ("spark.executor.memory", "", False),
    ],
)
def test_a_secret_is_told_by_its_name(name: str, redaction: str, hidden: bool) -> None:
    given = {name: "1", "spark.redaction.regex": redaction, "spark.local.dir": "/tmp"}
    shown, secret = split_secrets(given)
    assert secret == ({name: "1"} if hidden else {})
    assert shown == {each: value for each, value in given.items() if each not in secret}


def test_a_pattern_of_secrets_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(BadOption, match=r"spark\.redaction\.regex"):
        split_secrets({"spark.redaction.regex": r"\p{Alpha}+key"})


def test_who_encrypts_is_asked_for_less_by_nobody_and_spills_nothing_readable() -> None:
    encrypted = {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}
    assert encryption_settings(encrypted) == {
        "spark.network.crypto.saslFallback": "false",
        "spark.io.encryption.enabled": "true",
    }
    assert encryption_settings({"spark.authenticate": "true"}) == {}
    own = merge_settings(encryption_settings(encrypted), {**encrypted, "spark.network.crypto.saslFallback": "true"})
    assert own["spark.network.crypto.saslFallback"] == "true", "an old shuffle service may need it"


def test_jvms_do_without_their_optimising_compiler_unless_they_encrypt() -> None:
    quick = "-XX:TieredStopAtLevel=1"
    light = {"spark.driver.defaultJavaOptions": quick, "spark.executor.defaultJavaOptions": quick}
    assert light_jvm_settings({"spark.authenticate": "true"}, {}) == light
    encrypts = {"spark.network.crypto.enabled": "true"}
    assert light_jvm_settings({"spark.authenticate": "true", **encrypts}, {}) == {}
    assert light_jvm_settings({"spark.authenticate": "true"}, encrypts) == {}
    assert (
        light_jvm_settings({"spark.ssl.rpc.enabled": "true"}, {})
        == light_jvm_settings({}, {"spark.io.encryption.enabled": "true"})
        == {}
    )


def test_what_a_cluster_says_of_its_jvms_is_left() -> None:
    found = light_jvm_settings({}, {"spark.executor.defaultJavaOptions": "-XX:+ExitOnOutOfMemoryError"})
    assert found == {"spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1"}


def test_the_environment_chooses_the_same_again() -> None:
    choice = SparkChoice(
        master="yarn", conf={"spark.a": "x y", "spark.b": "1"}, archive="a.tar.gz", secrets=SecretsChoice.ON_EXECUTORS
    )
    assert choice.environment() == {
        "OFFSITE_SPARK_MASTER": "yarn",
        "OFFSITE_SPARK_CONF": "spark.a=x y\nspark.b=1",
        "OFFSITE_SPARK_ARCHIVE": "a.tar.gz",
        "OFFSITE_SECRETS": "on-executors",
    }
    assert SparkChoice().environment() == {"OFFSITE_SECRETS": "encrypted"}, "or a variable of another one would count"


BAD_LINES = [
    ({"spark.a": "b\nspark.c=d"}, "spark.a"),
    ({"spark.a": "b\0"}, "spark.a"),
    ({"spark.a=b": "c"}, "spark.a=b"),
    ({"spark.a\nspark.b": "c"}, "spark.b"),
    ({"spark.a\0": "c"}, "spark.a"),
    ({"other": "c"}, "other"),
]


@pytest.mark.parametrize(("conf", "named"), BAD_LINES)
def test_the_environment_tells_no_settings_that_are_not_a_line_each(conf: dict[str, str], named: str) -> None:
    with pytest.raises(BadOption, match=named):
        SparkChoice(conf=conf).environment()


@pytest.mark.parametrize(
    "line", ["spark.a=hunter2\\nb", "spark.a=hunter2\\u0000", r"spark.a\=b=hunter2", r"spark.a\ b=hunter2"]
)
def test_a_file_s_settings_that_are_not_a_line_each_are_named_without_their_values(tmp_path: Path, line: str) -> None:
    file = tmp_path / "spark.properties"
    file.write_text(line)
    with pytest.raises(BadOption, match=r"spark\.a") as raised:
        settings_of(file, [])
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize("pair", ["spark.a=b\nspark.c=d", "spark.a=b\0", "spark.a b=c"])
def test_options_that_are_not_a_line_each_are_named(pair: str) -> None:
    with pytest.raises(BadOption, match=r"spark\.a"):
        settings_of(None, [pair])


def test_a_master_among_the_settings_is_the_master_unless_one_is_named() -> None:
    conf = {"spark.master": "spark://a:7077", "spark.executor.memory": "2g"}
    assert SparkChoice(conf=conf) == SparkChoice(master="spark://a:7077", conf={"spark.executor.memory": "2g"})
    assert SparkChoice(master="local[2]", conf=conf).master == "local[2]"
    assert "spark.master" not in SparkChoice(master="local[2]", conf=conf).conf
