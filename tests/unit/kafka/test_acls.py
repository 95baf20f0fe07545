"""Rules of a backup are set again as it names them; what no rule has is damage of the backup."""

from __future__ import annotations

from dataclasses import replace

import pytest

from offsite.kafka.protocol.cluster_settings import create_acls_request
from offsite.model.cluster_settings import Acl
from offsite.model.errors import DamagedObject

RULE = Acl(
    resource_type="TOPIC",
    resource="orders",
    pattern="LITERAL",
    principal="User:a",
    host="*",
    operation="READ",
    permission="ALLOW",
)


def test_a_code_without_a_name_is_set_as_the_number_it_is() -> None:
    named, numbered = (create_acls_request([replace(RULE, permission=each)]).body for each in ("ALLOW", "3"))
    assert named == numbered


@pytest.mark.parametrize("word", ["", "PERHAPS", "-1", "128", "9" * 5000])
def test_a_word_that_no_rule_has_is_damage(word: str) -> None:
    with pytest.raises(DamagedObject, match="is not valid in an ACL"):
        create_acls_request([replace(RULE, permission=word)])
