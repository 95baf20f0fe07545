"""The file of `offsite serve --oidc`: what it says, and what it is refused for."""

from __future__ import annotations

from pathlib import Path

import pytest

from offsite.model.errors import BadOption
from offsite.serve.oidc.settings import read_oidc
from offsite.serve.tokens import AccessRole

RIGHT = """
issuer: https://id.example.org/realms/ops
client_id: offsite
client_secret_file: secret
public_url: https://backups.example.org/
groups_claim: [realm_access, roles]
rights:
  - {group: admins, role: restore+records}
"""


def written(folder: Path, text: str, secret: str = "s3cret-word") -> Path:
    (folder / "secret").write_text(secret)
    (folder / "secret").chmod(0o600)
    (path := folder / "oidc.yaml").write_text(text)
    return path


def test_a_file_says_provider_client_and_rights(tmp_path: Path) -> None:
    settings = read_oidc(written(tmp_path, RIGHT))
    provider = settings.provider
    assert (provider.issuer, provider.place) == ("https://id.example.org/realms/ops", "id.example.org")
    assert provider.public_url == "https://backups.example.org"
    assert provider.groups_claim == ("realm_access", "roles")
    assert provider.scopes == ("openid", "profile")
    assert provider.client_secret is not None
    assert provider.client_secret.reveal() == "s3cret-word"
    assert "s3cret-word" not in repr(settings)
    rights = settings.rights_of(["others", "admins"], now_s=0)
    assert rights is not None
    assert (rights.caller.role, rights.caller.records) == (AccessRole.RESTORE, True)
    assert settings.rights_of(["Admins", ""], now_s=0) is None


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("client_id", "clientid", "clientid: there is no such key"),
        ("client_id: offsite", "", "client_id: it is required"),
        ("client_id: offsite", "client_id: 7", "client_id: Input should be a valid string"),
        ("role: restore", "rolle: restore", "rights.0.rolle: there is no such key"),
        ("restore+records", "king", "'king' is not a role"),
        ("restore+records", "watch+records", r"watch\+records does not exist"),
        ("https://id", "http://id", "issuer is an http URL"),
        ("https://id", "ftp://id", "issuer is not an https URL"),
        ("https://id", "https://ann:pw@id", "issuer has to be a plain URL"),
        ("realms/ops", "realms/ops?x=1", "issuer has to be a plain URL"),
        ("https://backups", "http://backups", "public_url is an http URL"),
        ("https://backups.example.org/", "backups", "public_url is not an https URL"),
        ("backups.example.org/", "example.org/backups", "public_url has a path"),
        ("role: restore+records", "role: read, backups: shop", "rights.0.backups: Input should be a valid list"),
        ("role: restore+records", "role: read, topics: [a/b]", "not a pattern of topics"),
        ("role: restore+records", "role: read, until: soon", "'soon' is not a date"),
        ("client_secret_file: secret", "client_secret_file: absent", "absent cannot be read"),
        ("client_secret_file: secret", "ca_file: secret", "holds no certificate"),
        ("client_secret_file: secret", "scopes: [profile]", "scopes is a list of words with openid"),
        ("client_secret_file: secret", "scopes: [openid, 'a b']", "scopes is a list of words with openid"),
        ("  - {group", "  - {group: admins, role: read}\n  - {group", "names a group twice"),
        ("rights:", "rights: []\nothers:", "rights: List should have at least 1 item"),
        ("issuer:", "- issuer:", "is not valid"),
        (RIGHT, "[1, 2]", "one YAML document of names and values"),
        (RIGHT, "", "one YAML document of names and values"),
        ("client_id: offsite", "client_id: &a offsite\nname_claim: *a", "anchors and aliases are not supported"),
    ],
)
def test_a_wrong_file_is_refused_by_the_name_of_what_is_wrong(tmp_path: Path, old: str, new: str, problem: str) -> None:
    assert old in RIGHT
    with pytest.raises(BadOption, match=problem) as refused:
        read_oidc(written(tmp_path, RIGHT.replace(old, new, 1)))
    assert refused.value.hint


def test_a_secret_in_the_wrong_place_is_not_quoted(tmp_path: Path) -> None:
    with pytest.raises(BadOption) as refused:
        read_oidc(written(tmp_path, RIGHT.replace("client_secret_file: secret", "client_secret: s3cret-word")))
    assert "client_secret: there is no such key" in refused.value.message
    assert "s3cret" not in f"{refused.value.message} {refused.value.hint}"


def test_a_file_that_others_can_write_or_a_secret_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, RIGHT)
    path.chmod(0o666)
    with pytest.raises(BadOption, match="can be written by other users"):
        read_oidc(path)
    path.chmod(0o644)
    (tmp_path / "secret").chmod(0o644)
    with pytest.raises(BadOption, match="can be read by other users"):
        read_oidc(path)
    with pytest.raises(BadOption, match="is empty"):
        read_oidc(written(tmp_path, RIGHT, secret=" \n"))


def test_an_issuer_on_this_machine_may_speak_http(tmp_path: Path) -> None:
    text = RIGHT.replace("https://id.example.org", "http://127.0.0.1:9").replace(
        "https://backups.example.org", "http://localhost:8080"
    )
    assert read_oidc(written(tmp_path, text)).provider.issuer == "http://127.0.0.1:9/realms/ops"
