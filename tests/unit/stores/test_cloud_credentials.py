"""The credentials of a store are pickled only where secrets may travel; else they are those of where it arrives."""

from __future__ import annotations

import pickle

import pytest

from offsite.model.errors import SecretStays
from offsite.model.secret import SecretHandling, handle_secrets
from offsite.stores.object_store import CloudStore
from offsite.stores.open_store import open_store

S3 = "s3://bucket/prefix?endpoint=http://127.0.0.1:9&region=here"
SECRETS = [
    (S3, {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "hunter2"}),
    (S3, {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "hunter2", "AWS_SESSION_TOKEN": "hunter2"}),
    ("gs://bucket", {"GOOGLE_SERVICE_ACCOUNT_KEY": "hunter2"}),
    ("az://bucket", {"AZURE_STORAGE_ACCOUNT_NAME": "name", "AZURE_STORAGE_ACCOUNT_KEY": "hunter2"}),
    ("az://bucket", {"AZURE_STORAGE_ACCOUNT_NAME": "name", "AZURE_STORAGE_SAS_KEY": "hunter2"}),
    ("az://bucket", {"AZURE_STORAGE_CLIENT_ID": "id", "AZURE_STORAGE_CLIENT_SECRET": "hunter2"}),
]


@pytest.mark.parametrize(("url", "environment"), SECRETS)
def test_credentials_are_pickled_only_where_they_may_travel(
    url: str, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(url, environment=environment)
    with pytest.raises(SecretStays, match=f"the credentials of {store.url}"):
        pickle.dumps(store)
    with handle_secrets(SecretHandling.SENT):
        assert pickle.loads(pickle.dumps(store)) == store
    with handle_secrets(SecretHandling.READ_THERE):
        data = pickle.dumps(store)
    assert b"hunter2" not in data
    for name, value in environment.items():
        monkeypatch.setenv(name, value.replace("hunter2", "hunter3"))
    there = pickle.loads(data)
    assert isinstance(there, CloudStore)
    assert dict(there.options) == {name: value.replace("hunter2", "hunter3") for name, value in store.options}


def test_an_executor_without_credentials_has_none_of_the_drivers(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have a role; half of a pair would keep it from using that."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    store = open_store(S3, environment={"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "hunter2"})
    with handle_secrets(SecretHandling.READ_THERE):
        there = pickle.loads(pickle.dumps(store))
    assert dict(there.options) == {"aws_endpoint": "http://127.0.0.1:9", "aws_region": "here"}


def test_a_store_without_secrets_may_always_be_pickled() -> None:
    store = open_store(S3, environment={"AWS_ROLE_ARN": "role"})
    assert pickle.loads(pickle.dumps(store)) == store


def test_patience_travels_as_well() -> None:
    store = open_store(S3, environment={})
    assert isinstance(store, CloudStore)
    assert pickle.loads(pickle.dumps(store.impatient)) == store.impatient
