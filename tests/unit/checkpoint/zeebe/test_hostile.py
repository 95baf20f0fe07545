"""Whatever answers on that port: nothing is believed that is not Zeebe's, nothing hangs, and no secret goes astray."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest

from offsite.checkpoint.status import CheckpointStatus
from offsite.checkpoint.zeebe.address import ZeebeCluster, parse_address
from offsite.checkpoint.zeebe.client import ZeebeClient, ZeebeOutcomeUnknown
from offsite.checkpoint.zeebe.management import Management
from offsite.checkpoint.zeebe.participant import ZeebeParticipant
from offsite.model.errors import ParticipantUnreachable
from tests.certificates import Certificates
from tests.fake_zeebe.server import Said, ZeebeServer, answers, answers_bytes, drips, serving

PART = {"partitionId": 1, "state": "COMPLETED"}
GOOD = {"backupId": 7, "state": "COMPLETED", "details": [PART]}
SECRET = "hunter2"  # of a test


def management(zeebe: ZeebeServer, *, authorization: str = "", **options: Any) -> Management:
    cluster = ZeebeCluster(address=parse_address(zeebe.url), authorization=authorization)
    found = Management(ZeebeClient(cluster, **{"timeout_s": 2.0, **options}))
    found._route = zeebe.route
    return found


def test_the_good_answer_is_read(zeebe: ZeebeServer) -> None:
    zeebe.fail_next("GET", answers(Said(code=200, body=GOOD)))
    found = management(zeebe).find(7)
    assert found is not None
    assert found.state == "COMPLETED"


@pytest.mark.parametrize(
    "body",
    [
        [],
        "COMPLETED",
        None,
        7,
        {},
        GOOD | {"backupId": 8},
        GOOD | {"backupId": "7"},
        GOOD | {"backupId": True},
        GOOD | {"backupId": 7.0},
        GOOD | {"backupId": 1 << 64},
        GOOD | {"state": 1},
        GOOD | {"state": "completed"},
        GOOD | {"state": "STRANGE\x1b[2J"},
        GOOD | {"details": []},
        GOOD | {"details": {}},
        GOOD | {"details": [7]},
        GOOD | {"details": [PART, PART]},
        GOOD | {"details": [PART, {"partitionId": 2, "state": "IN_PROGRESS"}]},
        GOOD | {"details": [{"partitionId": 0, "state": "COMPLETED"}]},
        GOOD | {"details": [{"partitionId": 1 << 40, "state": "COMPLETED"}]},
        GOOD | {"details": [PART | {"createdAt": "yesterday"}]},
        GOOD | {"details": [PART | {"createdAt": 5}]},
        GOOD | {"failureReason": ["x"]},
        GOOD | {"details": [{"partitionId": n, "state": "COMPLETED"} for n in range(1, 10_002)]},
    ],
)
def test_a_status_that_is_none_is_not_believed(zeebe: ZeebeServer, body: Any) -> None:
    zeebe.fail_next("GET", answers(Said(code=200, body=body)))
    with pytest.raises(ZeebeOutcomeUnknown):
        management(zeebe).find(7)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"no http at all\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{}",
        b"HTTP/1.1 999999 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 500 + b"\r\n{}",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000 + b"\r\n\r\n{}",
        b'HTTP/1.1 200 OK\r\n\r\n{"backupId":7,"backupId":8,"state":"COMPLETED","details":[]}',
        b'HTTP/1.1 200 OK\r\n\r\n{"backupId":' + b"9" * 10_000 + b"}",
        b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 200_000,
        b"HTTP/1.1 200 OK\r\n\r\n" + b'{"a":' * 50_000,
        b"HTTP/1.1 200 OK\r\n\r\n\xff\xfe",
    ],
)
def test_what_is_no_answer_is_an_unknown_outcome(zeebe: ZeebeServer, data: bytes) -> None:
    zeebe.fail_next("GET", answers_bytes(data))
    with pytest.raises(ZeebeOutcomeUnknown):
        management(zeebe).find(7)


def test_an_answer_is_read_up_to_a_limit(zeebe: ZeebeServer) -> None:
    zeebe.fail_next("GET", answers(Said(code=200, body=GOOD | {"failureReason": "x" * 5000})))
    with pytest.raises(ZeebeOutcomeUnknown, match="more than 1000 bytes"):
        management(zeebe, max_answer_bytes=1000).find(7)


def test_who_answers_byte_by_byte_is_hung_up_on(zeebe: ZeebeServer) -> None:
    zeebe.fail_next("GET", drips)
    began_s = time.monotonic()
    with pytest.raises(ZeebeOutcomeUnknown):
        management(zeebe, timeout_s=0.4).find(7)
    assert time.monotonic() - began_s < 8, "it would take ten"


def test_nobody_there_is_an_unknown_outcome() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        cluster = ZeebeCluster(address=parse_address(f"http://127.0.0.1:{held.getsockname()[1]}"))
        with pytest.raises(ZeebeOutcomeUnknown, match="does not answer"):
            ZeebeClient(cluster, timeout_s=2.0).ask("GET", "backups/7")


@pytest.mark.parametrize("code", [301, 302, 307, 308])
def test_no_redirect_is_followed(zeebe: ZeebeServer, code: int) -> None:
    with serving() as elsewhere:
        moved = Said(code=code, headers=(("Location", f"{elsewhere.url}/actuator/backups/7"),))
        zeebe.fail_next("GET", answers(moved))
        with pytest.raises(ParticipantUnreachable, match="another address"):
            management(zeebe, authorization=f"Bearer {SECRET}").find(7)
        assert elsewhere.asked == []


def test_no_proxy_of_the_environment_is_used(zeebe: ZeebeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        zeebe.zeebe.take(7)
        assert management(zeebe).find(7) is not None
        assert proxy.asked == []


def test_over_tls_only_who_has_the_right_certificate_is_told_who_we_are(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(certificate=certificates.server) as zeebe:
        at = parse_address(zeebe.url.replace("http:", "https:"))
        client = ZeebeClient(ZeebeCluster(address=at, authorization=f"Bearer {SECRET}"), timeout_s=5.0)
        with pytest.raises(ZeebeOutcomeUnknown):
            client.ask("GET", "backups/7")
        assert zeebe.asked == []
        monkeypatch.setenv("SSL_CERT_FILE", str(certificates.authority))
        assert client.ask("GET", "backups/7").status == 404
        assert [each.authorization for each in zeebe.asked] == [f"Bearer {SECRET}"]


def test_a_404_of_somebody_else_is_not_the_news_that_a_backup_is_gone(zeebe: ZeebeServer) -> None:
    for body in ({"status": 404, "message": "no such page", "path": "/"}, "gone", None, {"error": "Not Found"}):
        zeebe.fail_next("GET", answers(Said(code=404, body=body)))
        with pytest.raises(ParticipantUnreachable):
            management(zeebe).find(7)


def test_another_server_is_not_taken_for_zeebe(
    zeebe: ZeebeServer, participant_of: Callable[..., ZeebeParticipant]
) -> None:
    with serving(route="elsewhere") as other, pytest.raises(ParticipantUnreachable, match="no endpoint for backups"):
        participant_of(other).take(7)
    zeebe.fail_next("POST /actuator/backups", answers(Said(code=200, body={"scheduledSnapshots": ["a"]})))
    with pytest.raises(ParticipantUnreachable, match="not answer as Zeebe does"):
        participant_of(zeebe).take(7)


def test_who_we_are_is_said_and_never_shown(participant_of: Callable[..., ZeebeParticipant]) -> None:
    with serving(authorization=f"Bearer {SECRET}") as zeebe:
        participant = participant_of(zeebe, authorization=f"Bearer {SECRET}")
        assert participant.take(7) is not None
        participant.release()
        for wrong in ("Bearer wrong-hunter2", ""):
            with pytest.raises(ParticipantUnreachable) as error:
                participant_of(zeebe, authorization=wrong).take(8)
            assert "--zeebe-token-file" in error.value.hint
            assert SECRET not in f"{error.value.message}{error.value.hint}"


def test_a_reason_of_others_is_one_line_of_a_bounded_length(
    zeebe: ZeebeServer, participant_of: Callable[..., ZeebeParticipant]
) -> None:
    failed = {"backupId": 7, "state": "FAILED", "failureReason": "a\n\x1b[2J" + "y" * 10_000, "details": []}
    zeebe.fail_next("GET", answers(Said(code=404, body={"message": "x"})), answers(Said(code=200, body=failed)))
    with pytest.raises(Exception, match="failed") as error:
        participant_of(zeebe).status(7)
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 700


@pytest.mark.parametrize(
    "body", [{}, {"status": "204"}, {"status": 500}, {"status": 99999}, [], None, {"status": 500, "body": [1]}]
)
def test_a_pause_that_is_not_told_to_be_one_is_none(zeebe: ZeebeServer, body: Any) -> None:
    zeebe.fail_next("resume", answers(Said(code=200, body=body)))
    from offsite.checkpoint.zeebe.management import Exporting

    with pytest.raises(ZeebeOutcomeUnknown):
        management(zeebe).exporting(Exporting.RESUME)


def test_no_status_is_known_where_there_is_none(zeebe: ZeebeServer) -> None:
    participant = ZeebeParticipant("zeebe", management(zeebe))
    assert participant.status(7) is CheckpointStatus.DOES_NOT_EXIST
    assert json.loads(b"{}") == {}
