"""What kopf notes of a resource, to tell whether it was changed."""

from __future__ import annotations

import json
from typing import Any

import kopf

from offsite.operator.kubernetes.kopf_operator import STATE_PREFIX, HashedSpecs


def note(status: dict[str, Any], **spec: Any) -> Any:
    body = {"kind": "Backup", "metadata": {"name": "shop", "annotations": {}}, "spec": spec, "status": status}
    return HashedSpecs(prefix=STATE_PREFIX).build(body=kopf.Body(body))


def test_a_note_tells_one_spec_from_another_and_is_short() -> None:
    """A copy of the spec may be longer than all annotations of an object together: then its finalizer never goes."""
    topics = ["t" * 500] * 500
    before = note({}, topics=topics)

    assert len(json.dumps(before)) < 200
    assert before == note({"reconciled": True}, topics=topics)
    assert before != note({}, topics=topics[1:])
