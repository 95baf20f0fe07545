"""A principal without the right to read `__consumer_offsets`: is what the cut claims true?"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from offsite.model.cluster_settings import Acl
from offsite.sandbox import SandboxInfo
from tests.conftest import SecureBroker
from tests.integration.e2e.test_cut_groups import (
    Payments,
    assert_paid_as_often_as_read,
    between_groups_and_ends,
    new_groups,
)
from tests.integration.kafka.cluster import Cluster
from tests.integration.kafka.test_security import config, plain

DENIED = partial(
    Acl,
    resource_type="TOPIC",
    resource="__consumer_offsets",
    pattern="LITERAL",
    principal="User:alice",
    host="*",
    permission="DENY",
)


@pytest.mark.parametrize("may", ["NOTHING", "DESCRIBE"])
def test_who_may_not_read_group_commits_is_told_nothing_exact(
    secure_broker: SecureBroker,
    second_broker: SandboxInfo,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    may: str,
) -> None:
    owner = Cluster(secure_broker.info.bootstrap)
    login = config(secure_broker, "SASL_PLAINTEXT", **plain("alice", secure_broker.users["alice"]))
    alice = Cluster(secure_broker.info.listeners["SASL_PLAINTEXT"], login)
    payments = Payments(owner)
    payments.pay()
    owner.add_acls(DENIED(operation="READ"))
    if may == "DESCRIBE":
        owner.add_acls(replace(DENIED(operation=may), permission="ALLOW"))
    groups = new_groups(alice, Cluster(second_broker.bootstrap), tmp_path)
    between_groups_and_ends(monkeypatch, payments.pay)
    groups.back_up(payments.orders, payments.paid)
    assert_paid_as_often_as_read(groups, payments)
