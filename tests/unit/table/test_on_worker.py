"""Spark pickles what a table's workers need by itself: the credentials of the store must not be in it."""

from __future__ import annotations

import pickle

import pytest

from offsite.model.secret import secret_handling
from offsite.stores.object_store import CloudStore
from offsite.stores.open_store import open_store
from offsite.table.options import WithoutSecrets

ENVIRONMENT = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "hunter2", "AWS_REGION": "here"}


def test_a_store_arrives_with_the_credentials_of_where_it_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    before = secret_handling()
    data = pickle.dumps(WithoutSecrets(open_store("s3://bucket", environment=ENVIRONMENT)))
    assert b"hunter2" not in data
    assert secret_handling() is before
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "other")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter3")
    there = pickle.loads(data).value
    assert isinstance(there, CloudStore)
    assert dict(there.options) == {
        "aws_access_key_id": "other",
        "aws_secret_access_key": "hunter3",
        "aws_region": "here",
    }
