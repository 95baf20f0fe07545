"""The address that a coordinator tells its owner: it is on the command line of a browser, so it counts once."""

from __future__ import annotations

import re
import threading

from starlette.testclient import TestClient

from offsite.serve.browsers import LoginCode
from offsite.serve.tokens import TokenFile, make_owner_tokens
from tests.unit.serve.conftest import Connect


def opened(connect: Connect) -> tuple[TestClient, TestClient, list[str]]:
    """Two browsers of one coordinator that has no file of tokens, and the codes that it has told."""
    told: list[str] = []
    code, own = LoginCode(told.append), make_owner_tokens()
    code.renew()
    rules = {"tokens": lambda: own, "login_code": code}
    return connect(**rules), connect(**rules), told


def test_a_code_begins_one_session_and_the_next_one_is_told_then(connect: Connect) -> None:
    owner, stranger, told = opened(connect)
    assert owner.get("/api/v1/status").status_code == 401
    began = owner.get(f"/login?code={told[0]}")
    assert (began.status_code, began.headers["Location"]) == (303, "/")
    assert owner.get("/api/v1/status").status_code == 200
    late = stranger.get(f"/login?code={told[0]}")
    assert late.status_code == 401
    assert "somebody else may do everything with the session" in late.text
    assert stranger.get("/api/v1/status").status_code == 401
    assert len(told) == 2
    assert owner.get(f"/login?code={told[0]}").status_code == 303, "its own history leads in"
    assert stranger.get(f"/login?code={told[1]}").status_code == 303


def test_who_waits_for_the_terminal_to_be_told_the_next_code_holds_nobody_up() -> None:
    is_told, may_go_on, told = threading.Event(), threading.Event(), []

    def tell(code: str) -> None:
        told.append(code)
        if len(told) > 1:
            is_told.set()
            may_go_on.wait(60)

    code = LoginCode(tell)
    code.renew()
    first = threading.Thread(target=code.use, args=(told[0],))
    first.start()
    assert is_told.wait(60)
    late = threading.Thread(target=code.use, args=("wrong",), daemon=True)
    late.start()
    late.join(10)
    assert not late.is_alive()
    may_go_on.set()
    first.join()


def test_a_code_is_no_token_and_a_form_takes_it(connect: Connect) -> None:
    owner, stranger, told = opened(connect)
    bearer = {"Authorization": f"Bearer {told[0]}"}
    assert stranger.get("/api/v1/status", headers=bearer).status_code == 401
    form = owner.get("/login").text
    word = re.findall(r'name="word" value="([^"]+)"', form)[0]
    assert owner.post("/login", data={"word": word, "token": "wrong"}).status_code == 401
    assert owner.post("/login", data={"word": word, "token": told[0]}).status_code == 303
    assert owner.get("/api/v1/status").status_code == 200


def test_no_page_of_others_uses_a_code_up(connect: Connect) -> None:
    owner, _, told = opened(connect)
    for site in ("cross-site", "same-site"):
        assert owner.get(f"/login?code={told[0]}", headers={"Sec-Fetch-Site": site}).status_code == 200
    assert owner.head(f"/login?code={told[0]}").status_code == 405
    assert len(told) == 1


def test_no_token_is_taken_from_an_address(connect: Connect, tokens: TokenFile, secrets: dict[str, str]) -> None:
    """It would stay in the history of the browser."""
    client = connect(tokens=tokens)
    for name in ("code", "token"):
        client.get(f"/login?{name}={secrets['restore']}")
        assert client.get("/api/v1/status").status_code == 401
