"""Who may see records: a right of its own, beside every role."""

from __future__ import annotations

from pathlib import Path

import pytest

from offsite.model.errors import BadOption
from offsite.repository.job import JobEnd, JobLayout
from offsite.repository.job_records import JobRecords
from offsite.serve.tokens import AccessRole, TokenFile, make_owner_tokens, new_token, read_tokens
from tests.fake_cluster.site import BACKUP
from tests.unit.serve.conftest import Connect, FakedClusters

SECRET_TEXT = "ann@example.org"  # a part of a record
RECORD_PATHS = (
    "records?topic=orders",
    "records/",
    "records/orders/0/0",
    "records/orders/0/0/value",
    "records/a%0Ab/0/0",
    "records/a%2Fb/0/0",
)


@pytest.mark.parametrize("role", ["read", "operate", "restore"])
@pytest.mark.parametrize("path", RECORD_PATHS)
def test_no_role_alone_sees_a_record_and_the_refusal_says_what_to_write(
    connect: Connect, tokens: TokenFile, secrets: dict[str, str], role: str, path: str
) -> None:
    client = connect(tokens=tokens, token=secrets[role])
    for prefix in ("", "/api/v1"):
        refused = client.get(f"{prefix}/backups/{BACKUP}/{path}")
        assert refused.status_code == 403
        assert f"{role}er {role}+records sha256:" in refused.json()["error"]["hint"]
    assert f'{BACKUP}/records"' not in client.get(f"/backups/{BACKUP}").text


@pytest.mark.parametrize("path", ["records%0A?topic=orders", "records/orders/0/0%0A", "records/orders/0/0/value%0A"])
def test_a_line_break_that_routes_leave_out_opens_no_way_to_records(
    connect: Connect, tokens: TokenFile, secrets: dict[str, str], coordinator: FakedClusters, path: str
) -> None:
    client = connect(tokens=tokens, token=secrets["restore"])
    for prefix in ("", "/api/v1"):
        assert client.get(f"{prefix}/backups/{BACKUP}/{path}").status_code == 400
    begun = client.post(f"/api/v1/backups/{BACKUP}/searches%0A", json={"topic": "orders", "key": SECRET_TEXT})
    assert begun.status_code == 400
    assert coordinator.begun == []


def test_a_search_is_begun_by_nobody_who_may_not_see_what_it_finds(
    connect: Connect, tokens: TokenFile, secrets: dict[str, str], coordinator: FakedClusters
) -> None:
    body = {"topic": "orders", "key": SECRET_TEXT}
    refused = connect(tokens=tokens, token=secrets["restore"]).post(f"/api/v1/backups/{BACKUP}/searches", json=body)
    assert refused.status_code == 403
    reading = connect(tokens=tokens, token=secrets["read+records"])
    hint = reading.post(f"/api/v1/backups/{BACKUP}/searches", json=body).json()["error"]["hint"]
    assert "read-records operate+records sha256:" in hint
    assert coordinator.begun == []


@pytest.mark.parametrize("vouched", [True, False])
def test_a_job_of_a_search_shows_neither_its_words_nor_its_result_without_the_right(
    connect: Connect, tokens: TokenFile, secrets: dict[str, str], coordinator: FakedClusters, *, vouched: bool
) -> None:
    """In no form: not in the list, the job, its events, its page, and not in the answer to who ends it."""
    seeing = connect(tokens=tokens, token=secrets["operate+records"])
    job = seeing.post(f"/api/v1/backups/{BACKUP}/searches", json={"topic": "orders", "key": SECRET_TEXT}).json()["job"]
    ended = JobEnd(id=job, at_ms=1, exit_code=0, result=f'{{"records": ["{SECRET_TEXT}"]}}', said=SECRET_TEXT)
    JobRecords(store=coordinator.repository().store, layout=JobLayout(job=job)).put_end(
        ended, secret=coordinator.secrets[job] if vouched else ""
    )
    assert SECRET_TEXT in seeing.get(f"/jobs/{job}").text
    other = connect(tokens=tokens, token=secrets["restore"])
    page = other.get(f"/jobs/{job}").text
    answers = [other.get(f"/api/v1/jobs{rest}").text for rest in ("", f"/{job}", f"/{job}/events?x" if vouched else "")]
    answers += [page, other.get("/jobs").text, other.post(f"/api/v1/jobs/{job}/cancel").text]
    assert not [answer for answer in answers if SECRET_TEXT in answer]
    assert "the right to records" in page
    assert "Equivalent command" not in page


def test_the_line_of_a_token_holds_the_right_and_an_old_line_does_not(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    token = new_token("ann:read+records", file)
    assert file.read_text().startswith("ann read+records sha256:")
    caller = read_tokens(file).authenticate(token)
    assert caller is not None
    assert (caller.role, caller.records) == (AccessRole.READ, True)
    file.write_text(file.read_text().replace("+records", ""))
    caller = read_tokens(file).authenticate(token)
    assert caller is not None
    assert not caller.records
    assert make_owner_tokens().active[0].caller.records


def test_who_watches_sees_state_alone(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    with pytest.raises(BadOption, match=r"watch\+records does not exist"):
        new_token("ann:watch+records", file)
    assert not file.exists()
    file.write_text(f"ann watch+records sha256:{'0' * 64}\n")
    with pytest.raises(BadOption, match=r"line 1 of .* watch\+records does not exist"):
        read_tokens(file)
