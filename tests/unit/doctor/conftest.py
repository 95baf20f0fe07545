from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from offsite.doctor.check import CheckResult, NotMeasurable, skipped
from offsite.doctor.examine import CheckReport, examine
from offsite.doctor.parts import DoctorRequest, Parts
from tests.fake_cluster.site import Site
from tests.inline_runner import InlineRunner

Examine = Callable[..., dict[str, CheckReport]]


def found(check: Callable[[Parts], CheckResult], parts: Parts) -> CheckResult:
    """What one check finds, errors apart."""
    try:
        return check(parts)
    except NotMeasurable as reason:
        return skipped(reason.said, cure=reason.cure)


@pytest.fixture
def parts(site: Site) -> Parts:
    """Those of the doubles of a cluster, of a folder, and of a Spark that is none."""
    return parts_of(site)


def parts_of(site: Site, **given: Any) -> Parts:
    given = {"repo": site.repository.store.url, "bootstrap": "source:9092", **given}
    request = DoctorRequest(**given)
    return Parts(request, make_cluster=lambda: site.source.connected, make_runner=InlineRunner)


@pytest.fixture
def examined(site: Site) -> Examine:
    """Check → what it told, of all checks."""

    def run(**given: Any) -> dict[str, CheckReport]:
        parts = parts_of(site, **given)
        return {each.id: each for each in examine(parts.request, parts=parts).checks}

    return run
