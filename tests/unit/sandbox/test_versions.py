from __future__ import annotations

import pytest
import typer

from offsite.cli.app import app
from offsite.model.errors import BadOption
from offsite.sandbox.versions import KAFKA_VERSION, KNOWN_VERSIONS, find_version, kafka_jars


@pytest.mark.parametrize("version", KNOWN_VERSIONS)
def test_each_version_has_a_whole_list_of_jars(version: str) -> None:
    jars = kafka_jars(version)
    assert len({jar.file_name for jar in jars}) == len(jars)
    assert {len(jar.sha256) for jar in jars} == {64}
    assert {jar.version for jar in jars if jar.group == "org.apache.kafka"} == {version}
    assert any(jar.artifact == "zookeeper" for jar in jars) or not find_version(version).needs_zookeeper


def test_an_unknown_version_is_refused_with_those_there_are() -> None:
    with pytest.raises(BadOption, match=r"no Kafka 3\.3\.2") as refused:
        find_version("3.3.2")
    assert all(version in refused.value.hint for version in KNOWN_VERSIONS)


def test_the_help_names_each_version() -> None:
    commands = typer.main.get_command(app).commands["sandbox"].commands  # type: ignore[attr-defined]
    (option,) = [each for each in commands["start"].params if "--kafka-version" in each.opts]
    assert all(version in option.help for version in KNOWN_VERSIONS)
    assert option.help.endswith(f"or {KAFKA_VERSION}].")
