"""Several repositories in one coordinator: addresses."""

from __future__ import annotations

from dataclasses import replace

import pytest
from starlette.testclient import TestClient

from tests.fake_cluster.site import BACKUP, Site
from tests.unit.serve.conftest import FakedClusters
from tests.unit.serve.test_pages import BASE, PAGES, Tree, shown, take, word

PREFIX = "/r/shop"
WHOLE = ("/static/", "/login", "/logout")
"""Pages of the whole coordinator."""


@pytest.fixture
def based(coordinator: FakedClusters, client: TestClient) -> TestClient:
    coordinator.settings = replace(coordinator.settings, name="shop")
    return client


@pytest.mark.parametrize("path", PAGES)
def test_every_address_on_a_page_of_a_repository_has_its_prefix(based: TestClient, site: Site, path: str) -> None:
    take(site)
    linked = [link for link in Tree(shown(based, path)).loaded if not link.startswith((*WHOLE, "#", "?"))]
    assert linked
    assert [link for link in linked if not link.startswith(f"{PREFIX}/")] == []


def test_a_form_leads_to_a_job_of_its_repository_whose_page_follows_it(based: TestClient) -> None:
    job = based.post(f"{BASE}/runs", data={"word": word(based, BASE)}).headers["location"]
    assert job.startswith(f"{PREFIX}/jobs/")
    assert f'data-events="{PREFIX}/api/v1{job.removeprefix(PREFIX)}/events"' in shown(based, job.removeprefix(PREFIX))


def test_the_api_says_where_a_job_of_a_repository_is(based: TestClient) -> None:
    begun = based.post(f"/api/v1/backups/{BACKUP}/verifications", json={})
    assert begun.headers["location"] == begun.json()["href"] == f"{PREFIX}/api/v1/jobs/{begun.json()['job']}"
