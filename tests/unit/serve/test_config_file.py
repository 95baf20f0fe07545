"""The file of `--config`: what it holds, and what is said of a mistake in it."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from offsite.engine.settings import SparkChoice
from offsite.model.errors import BadOption
from offsite.serve.config_file import REPOSITORIES_MAX, RepositoryEntry, read_config
from offsite.serve.site import SOURCE, ClusterAddress, SiteSettings

SOUND = """\
repositories:
  shop:
    repo: s3://backups/shop
    bootstrap: broker:9092
    kafka-config: /etc/shop.properties
    backup: orders
    target: [dr=dr:9092, "test=test:9092,/etc/test.properties"]
    records: /var/records
    metastore: /var/ksql
    interval: 1m
  bank:
    repo: /srv/bank
    read-only: true
"""


def read(tmp_path: Path, text: str) -> dict[str, SiteSettings]:
    (file := tmp_path / "serve.yaml").write_text(text)
    return read_config(file, spark=SparkChoice())


def test_a_file_has_the_words_of_the_options(tmp_path: Path) -> None:
    settings = read(tmp_path, SOUND)
    assert list(settings) == ["shop", "bank"]
    shop, bank = settings.values()
    assert shop.repo == "s3://backups/shop"
    assert shop.addresses == {
        SOURCE: ClusterAddress(bootstrap="broker:9092", kafka_config=Path("/etc/shop.properties")),
        "dr": ClusterAddress(bootstrap="dr:9092"),
        "test": ClusterAddress(bootstrap="test:9092", kafka_config=Path("/etc/test.properties")),
    }
    assert (shop.backup, shop.records, shop.metastore) == ("orders", ("/var/records",), Path("/var/ksql"))
    assert (shop.interval_s, shop.read_only, shop.base) == (60.0, False, "/r/shop")
    assert (bank.addresses, bank.read_only, bank.interval_s, bank.base) == ({}, True, 30.0, "/r/bank")


def test_a_coordinator_that_is_read_only_has_only_such_repositories(tmp_path: Path) -> None:
    (file := tmp_path / "serve.yaml").write_text(SOUND)
    assert all(settings.read_only for settings in read_config(file, spark=SparkChoice(), read_only=True).values())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds 0 documents"),
        ("a: 1\n---\nb: 1\n", "holds 2 documents"),
        ("[]", "line 1: repositories: the file must hold a mapping"),
        ("repositories: {}", "line 1: repositories: it holds 0 repositories"),
        ("repository:\n  a: {repo: x}\n", "line 1: repositories: the file must hold a mapping"),
        (SOUND + "port: 80\n", "line 14: port: there is no such key"),
        (SOUND.replace("backup:", "backups:"), r"line 6: repositories\.shop\.backups: there is no such key"),
        (SOUND.replace("    repo: /srv/bank\n", ""), r"line 11: repositories\.bank\.repo: this key is required"),
        (SOUND.replace("read-only: true", "read-only: sure"), r"line 13: repositories\.bank\.read-only: "),
        (
            SOUND.replace("read-only", "read_only"),
            r"bank\.read_only: there is no such",
        ),
        (SOUND.replace("1m", "1ms"), r"line 10: repositories\.shop\.interval: --interval 1ms is shorter"),
        (SOUND.replace("1m", "30"), r"line 10: repositories\.shop\.interval: Input should be a valid string"),
        (SOUND.replace("dr=dr:9092", "dr"), r"line 7: repositories\.shop\.target: 'dr' is not NAME=HOST:PORT"),
        (SOUND.replace("dr=dr", "test=dr"), r"line 7: repositories\.shop\.target: 2 clusters are named 'test'"),
        (SOUND.replace("s3://backups", "s4://backups"), r"line 3: repositories\.shop\.repo: "),
        (SOUND.replace("s3://backups", "s3://me:secret@backups"), "credentials are not allowed in a URL"),
        (SOUND.replace("/var/records", "ftp://x/y"), r"line 8: repositories\.shop\.records: "),
        (
            SOUND.replace("/var/records", "[1]"),
            r"line 8: repositories\.shop\.records\.0: Input should be",
        ),
        (SOUND + "    zeebe: x y\n", r"line 14: repositories\.bank\.zeebe: "),
        (SOUND.replace("bank:", "shop:"), "'shop' comes twice in line 11"),
        (SOUND.replace("bank:", "a/b:"), "line 11: repositories.a/b: this is no name of a repository"),
        (SOUND.replace("bank:", '"..":'), "this is no name of a repository"),
        (SOUND.replace("bank:", "%2e:"), "cannot be used"),
        (SOUND.replace("bank:", "7:"), "line 11: repositories.7: this is no name of a repository"),
        (SOUND.replace("bank:", "&x bank:"), "anchors and aliases are not supported"),
        ("repositories:\n  a: x\n", r"line 2: repositories\.a: a repository is a mapping"),
        ("repositories:\n  a:\n", r"line 2: repositories\.a: a repository is a mapping"),
        (
            "repositories:\n" + "".join(f"  a{number}: {{repo: x}}\n" for number in range(REPOSITORIES_MAX + 1)),
            "it holds 101 repositories",
        ),
    ],
)
def test_a_mistake_is_told_with_its_key_and_its_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(BadOption, match=said) as raised:
        read(tmp_path, text)
    assert raised.value.hint
    assert raised.value.message.isprintable()
    assert "secret" not in raised.value.message


def test_an_unknown_key_gets_the_most_similar_one(tmp_path: Path) -> None:
    with pytest.raises(BadOption) as raised:
        read(tmp_path, SOUND.replace("bootstrap:", "bootsrap:"))
    assert raised.value.hint == "did you mean bootstrap?"


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="cannot be read: No such file"):
        read_config(tmp_path / "serve.yaml", spark=SparkChoice())
    (file := tmp_path / "serve.yaml").write_bytes(b"\xff\xfea")
    with pytest.raises(BadOption, match="UTF-16"):
        read_config(file, spark=SparkChoice())


def test_a_file_that_others_can_write_is_refused(tmp_path: Path) -> None:
    (file := tmp_path / "serve.yaml").write_text(SOUND)
    file.chmod(0o666)
    with pytest.raises(BadOption, match="can be written by other users"):
        read_config(file, spark=SparkChoice())


def test_the_file_of_the_how_to_can_be_used(tmp_path: Path) -> None:
    text = (Path(__file__).parents[3] / "docs/how-to/several-repositories.md").read_text()
    (example,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert list(read(tmp_path, textwrap.dedent(example))) == ["shop", "bank", "archive"]


def test_the_how_to_tells_every_key() -> None:
    text = (Path(__file__).parents[3] / "docs/how-to/several-repositories.md").read_text()
    keys = " ".join(re.findall(r"^ *\| (`.*?) \|", text, re.MULTILINE))
    documented = set(re.findall(r"`([a-z-]+)`", keys))
    assert documented == {field.alias for field in RepositoryEntry.model_fields.values()}
