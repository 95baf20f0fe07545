"""Values of settings that are in files, as Kafka's own clients read them from the keys of a mounted Secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from offsite.kafka.cluster import ClientProperties, parse_client_properties, read_client_properties
from offsite.model.errors import BadKafkaConfig
from offsite.model.secret import Secret

PROVIDER = "org.apache.kafka.common.config.provider.DirectoryConfigProvider"
PROVIDERS = ("config.providers=secret", f"config.providers.secret.class={PROVIDER}")
SCRAM = ("security.protocol=SASL_PLAINTEXT", "sasl.mechanism=SCRAM-SHA-512", "sasl.username=alice")


def parse(*lines: str) -> ClientProperties:
    text = "\n".join(["bootstrap.servers=b:9092", *SCRAM, *lines])
    return parse_client_properties(text, source="client.properties")


def test_a_password_is_the_content_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("hunter2")
    parsed = parse(*PROVIDERS, f"sasl.password=${{secret:{tmp_path}:password}}")
    assert parsed.config.sasl is not None
    assert parsed.config.sasl.password == Secret("hunter2")
    assert parsed.warnings == ()


def test_a_jaas_line_is_the_content_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "sasl.jaas.config").write_text('a.ScramLoginModule required username="bob" password="hunter3";')
    parsed = parse(*PROVIDERS, f"sasl.jaas.config=${{secret:{tmp_path}:sasl.jaas.config}}")
    assert parsed.config.sasl is not None
    assert (parsed.config.sasl.username, parsed.config.sasl.password) == ("bob", Secret("hunter3"))


def test_without_a_provider_such_a_value_is_text() -> None:
    parsed = parse("sasl.password=${secret:/etc:password}")
    assert parsed.config.sasl is not None
    assert parsed.config.sasl.password == Secret("${secret:/etc:password}")


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadKafkaConfig, match=r"client\.properties:7: sasl\.password: cannot read .*/password: No such"):
        parse(*PROVIDERS, f"sasl.password=${{secret:{tmp_path}:password}}")


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "below/password", "..", "pass\\u0000word"])
def test_a_file_elsewhere_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("hunter2")
    (folder := tmp_path / "folder" / "below").mkdir(parents=True)
    (folder / "password").write_text("hunter2")
    with pytest.raises(BadKafkaConfig, match=r"sasl\.password: .* is not the name of a file in a folder"):
        parse(*PROVIDERS, f"sasl.password=${{secret:{folder.parent}:{name}}}")


def test_a_named_file_that_everybody_can_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("hunter2")
    (properties := tmp_path / "client.properties").write_text(
        "\n".join(
            [
                f"bootstrap.servers=${{secret:{tmp_path}:bootstrap}}",
                *SCRAM,
                *PROVIDERS,
                f"sasl.password=${{secret:{tmp_path}:password}}",
            ]
        )
    )
    (tmp_path / "bootstrap").write_text("b:9092")
    for file, mode in ((properties, 0o600), (tmp_path / "password", 0o644), (tmp_path / "bootstrap", 0o644)):
        file.chmod(mode)
    (warning,) = read_client_properties(properties).warnings
    assert warning.startswith(f"{tmp_path / 'password'} contains a secret")


@pytest.mark.parametrize("lines", [("config.providers=vault",), ("config.providers=v", "config.providers.v.class=a.B")])
def test_another_provider_is_refused_by_name(lines: tuple[str, ...]) -> None:
    with pytest.raises(BadKafkaConfig, match=r"offsite does not know the provider v") as refused:
        parse(*lines, "sasl.password=hunter2")
    assert PROVIDER in refused.value.hint
