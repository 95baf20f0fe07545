"""What the evidence for a cut is without the right to see, or to read, what transaction coordinators write."""

from __future__ import annotations

from functools import partial

import pytest

from offsite.backup.cut.readings import RIGHT, STATE_TOPIC, ReadingSeries, begin_readings, take_readings
from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.net.routing import Router
from offsite.model.cluster_settings import Acl
from tests.conftest import SecureBroker
from tests.integration.e2e.transacting import at_work, keys_of
from tests.integration.kafka.cluster import Cluster
from tests.integration.kafka.test_security import config, plain

denied = partial(
    Acl,
    resource_type="TOPIC",
    resource=STATE_TOPIC,
    pattern="LITERAL",
    principal="User:alice",
    host="*",
    permission="DENY",
)


def taken_by_alice(broker: SecureBroker) -> ReadingSeries:
    owner = Cluster(broker.info.bootstrap)
    topic = owner.make_topic(partitions=2)
    admin = ClusterAdmin(Router(config(broker, "SASL_PLAINTEXT", **plain("alice", broker.users["alice"]))))
    with at_work(owner, topic, partitions=2, workers=1):
        begun = begin_readings(admin)
        return take_readings(admin, begun, keys_of(owner, topic), unclean=lambda *_: ())


def test_who_may_read_them_has_the_changes(secure_broker: SecureBroker) -> None:
    taken = taken_by_alice(secure_broker)
    assert (taken.notes, dict(taken.failed)) == ((), {})
    assert taken.changes is not None


@pytest.mark.parametrize("operation", ["READ", "DESCRIBE"])
def test_who_may_not_is_told_which_right_is_missing(secure_broker: SecureBroker, operation: str) -> None:
    owner = Cluster(secure_broker.info.bootstrap)
    owner.add_acls(denied(operation=operation))
    taken = taken_by_alice(secure_broker)
    assert taken.changes is None
    assert taken.readings
    assert not taken.failed
    (note,) = taken.notes
    assert RIGHT in note
