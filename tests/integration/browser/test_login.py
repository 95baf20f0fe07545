"""Login at an identity provider that others wrote: by requests alone, and in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from offsite.serve.sessions import COOKIE
from tests.integration.browser.certified import CLIENT, SECRET, certified_provider
from tests.integration.browser.conftest import PHONE, LookAt
from tests.integration.browser.served import coordinator, empty_repository
from tests.s3_servers import free_port

GROUPS = {"ann": ["ops", "on-call"], "bob": ["guests"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    url: str
    issuer: str


@pytest.fixture(scope="module", params=["ES256"])
def login(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Login]:
    """A coordinator whose people log in at a certified provider."""
    folder, port = tmp_path_factory.mktemp("login"), free_port()
    url = f"http://127.0.0.1:{port}"
    with certified_provider(url, GROUPS, request.param) as provider:
        file = written(folder, url, provider.issuer)
        with coordinator(empty_repository(folder), "--oidc", file, "--port", port):
            yield Login(url=url, issuer=provider.issuer)


def written(folder: Path, url: str, issuer: str) -> Path:
    (folder / "secret").touch(0o600)
    (folder / "secret").write_text(SECRET)
    (file := folder / "oidc.yaml").write_text(
        f"issuer: {issuer}\nclient_id: {CLIENT}\nclient_secret_file: secret\npublic_url: {url}\n"
        "scopes: [openid, profile, groups]\ngroups_claim: groups\nrights:\n  - {group: on-call, role: operate}\n"
    )
    return file


def log_in(client: httpx.Client, login: Login, name: str) -> httpx.Response:
    """What a browser without JavaScript does: follow links and send the forms of the provider."""
    page = client.get(f"{login.url}/login")
    assert f"Log in at {login.issuer.removeprefix('http://')}" in page.text
    page = client.get(f"{login.url}/login/oidc")
    while str(page.url).startswith(login.issuer):
        action = re.search(r'action="([^"]+)"', page.text)
        assert action is not None, page.text
        hidden = dict(re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', page.text))
        page = client.post(str(page.url.join(action[1])), data={**hidden, "login": name, "password": "any"})
    return page


def test_the_code_flow_with_a_certified_provider(login: Login) -> None:
    with httpx.Client(follow_redirects=True) as client:
        page = log_in(client, login, "ann")
        assert page.status_code == 200, page.text
        assert "You are oidc:ann:" in page.text
        assert client.get(f"{login.url}/api/v1/status").status_code in {200, 503}
        assert client.get(f"{login.url}/api/v1/jobs").status_code == 200
        assert client.delete(f"{login.url}/api/v1/backups/x/checkpoints/1").status_code == 403
        copied = client.cookies[COOKIE]
        word = re.search(r'name="word" value="([0-9a-f]+)"', client.get(f"{login.url}/jobs").text)
        assert word is not None
        out = client.post(f"{login.url}/logout", data={"word": word[1]})
        link = re.search(r'href="([^"]+session/end[^"]+)"', out.text)
        assert link is not None, out.text
        assert client.get(link[1].replace("&amp;", "&")).status_code == 200
        assert httpx.get(f"{login.url}/api/v1/jobs", cookies={COOKIE: copied}).status_code == 401


def test_a_stranger_of_a_certified_provider_gets_no_session(login: Login) -> None:
    with httpx.Client(follow_redirects=True) as client:
        page = log_in(client, login, "bob")
        assert page.status_code == 403
        assert "none of your groups has rights here" in page.text
        assert COOKIE not in client.cookies


@pytest.mark.parametrize("width", [1280, PHONE])
def test_a_person_logs_in_and_out_in_a_browser(login: Login, look_at: LookAt, width: int) -> None:
    """The cookie of a session is for our own pages alone: the browser has it after a way that began elsewhere."""
    look = look_at(login.url, width=width)
    look.go("/login").get_by_role("link", name="Log in at").click()
    look.page.get_by_placeholder("Enter any login").fill("ann")
    look.page.get_by_placeholder("and password").fill("any")
    look.page.get_by_role("button", name="Sign-in").click()
    look.page.get_by_role("button", name="Continue").click()
    look.page.wait_for_url(f"{login.url}/")
    look.page.goto(f"{login.url}/jobs")
    look.page.get_by_role("button", name="Log out").click()
    look.page.wait_for_url(f"{login.url}/login?out=1")
    assert look.page.get_by_role("link", name="log out there, too").is_visible()
    look.troubles.clear()  # the pages of the provider are not ours
    look.check()
    assert look.page.goto(f"{login.url}/jobs").url.endswith("/login")  # type: ignore[union-attr]
