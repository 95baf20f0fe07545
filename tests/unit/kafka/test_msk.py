"""Logins by AWS IAM: what is signed by which credentials, and what is said where there are none."""

from __future__ import annotations

import datetime
import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from socket import gethostname
from typing import Any

import pytest

from offsite.kafka.aws_login import AwsLogin, region_of
from offsite.kafka.cluster import parse_client_properties
from offsite.kafka.config import SaslConfig, TokenSource
from offsite.kafka.net import msk
from offsite.kafka.net.sasl import authenticate
from offsite.kafka.protocol.request import Api, Request
from offsite.kafka.protocol.wire import Decoder, Encoder
from offsite.model.errors import BadKafkaConfig, KafkaAuthenticationFailed, KafkaUnreachable, TokenEndpointUnavailable
from tests.msk_listener import AwsKey, MskJudge, utc_now

HOST = "b-1.shop.a1b2c3.c2.kafka.eu-west-1.amazonaws.com"
SECRET = "hunter2/secret+key"
MODULE = "software.amazon.msk.auth.iam.IAMLoginModule required"
HANDLER = "sasl.client.callback.handler.class=software.amazon.msk.auth.iam.IAMClientCallbackHandler"


@pytest.fixture(autouse=True)
def aws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without credentials. Returns the file of its profiles."""
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setattr(msk, "_renewing", {})
    monkeypatch.setattr(msk, "_hung", {}, raising=False)
    return tmp_path / "credentials"


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA1")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)


ENDED = (
    r'{"Version": 1, "AccessKeyId": "a", "SecretAccessKey": "b", "SessionToken": "c", "Expiration": '
    r'"2020-01-01T00:00:00Z"}'
)


class MskBroker:
    """The other end of a login."""

    welcome = b"{}"

    def __init__(self, **keys: AwsKey) -> None:
        self.judge = MskJudge(keys=dict(keys), host=HOST)

    def __call__(self, request: Request[Any]) -> Any:
        if request.api is Api.SASL_HANDSHAKE:
            return request.parse(Decoder(memoryview(Encoder().i16(0).i32(0).done())))
        verdict = self.verdict(Decoder(memoryview(request.body)).blob())
        answer = b"" if verdict else self.welcome
        body = Encoder().i16(58 if verdict else 0).string(verdict).blob(answer).i64(0).done()
        return request.parse(Decoder(memoryview(body)))

    def verdict(self, message: bytes) -> str:
        return self.judge.refusal(message)


class TokenBroker(MskBroker):
    """The same for `OAUTHBEARER`."""

    welcome = b""

    def verdict(self, message: bytes) -> str:
        (token,) = re.findall(rb"\x01auth=Bearer ([\w-]+)\x01\x01$", message)
        return self.judge.refusal_of_token(token.decode())


def log_in(broker: MskBroker, login: AwsLogin | None = None, *, host: str = HOST) -> None:
    authenticate(SaslConfig(mechanism="AWS_MSK_IAM", aws=login or AwsLogin()), broker, host=host)


def read(*lines: str, protocol: str = "SASL_SSL") -> SaslConfig:
    head = [f"bootstrap.servers={HOST}:9098", f"security.protocol={protocol}", "sasl.mechanism=AWS_MSK_IAM"]
    properties = parse_client_properties("\n".join([*head, *lines]), source="client.properties")
    assert properties.warnings == ()
    assert properties.config.sasl is not None
    return properties.config.sasl


def test_settings_are_those_of_amazon_s_own_client() -> None:
    assert read(f"sasl.jaas.config={MODULE};", HANDLER).aws == AwsLogin()
    options = 'awsProfileName="backup" awsRoleArn="arn:aws:iam::1:role/r" awsRoleSessionName="s" awsStsRegion=eu-west-2'
    assert read(f"sasl.jaas.config={MODULE} {options} awsDebugCreds=true;", HANDLER).aws == AwsLogin(
        profile="backup", role_arn="arn:aws:iam::1:role/r", session_name="s", sts_region="eu-west-2"
    )


@pytest.mark.usefixtures("key")
def test_signed_tokens_pass_where_oauthbearer_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    properties = parse_client_properties(
        f"bootstrap.servers={HOST}:9098\nsecurity.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\n"
        "sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;\n"
        "sasl.login.callback.handler.class=software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler\n",
        source="client.properties",
    )
    assert properties.warnings == ()
    sasl = properties.config.sasl
    assert sasl is not None
    authenticate(sasl, TokenBroker(AKIA1=AwsKey(secret=SECRET)), host=HOST)
    monkeypatch.setenv("AWS_SESSION_TOKEN", "tok/en+with=signs")
    authenticate(sasl, TokenBroker(AKIA1=AwsKey(secret=SECRET, token="tok/en+with=signs")), host=HOST)
    with pytest.raises(KafkaAuthenticationFailed, match="wrong signature") as caught:
        authenticate(sasl, TokenBroker(AKIA1=AwsKey(secret="another", token="tok/en+with=signs")), host=HOST)
    assert "kafka-cluster:Connect" in caught.value.hint


def test_options_of_signed_tokens_are_those_of_signed_messages() -> None:
    text = (
        f"bootstrap.servers={HOST}:9098\nsecurity.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\n"
        'sasl.jaas.config=OAuthBearerLoginModule required awsProfileName="backup" {};\n'
        "sasl.login.callback.handler.class=software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler\n"
    )
    sasl = parse_client_properties(text.format("awsDebugCreds=true"), source="f").config.sasl
    assert sasl is not None
    assert sasl.token == TokenSource(aws=AwsLogin(profile="backup"))
    with pytest.raises(BadKafkaConfig, match=r"f:4: sasl\.jaas\.config: .* lacks: clientSecret"):
        parse_client_properties(text.format("clientSecret=hunter2"), source="f")


@pytest.mark.parametrize(
    ("line", "protocol", "why"),
    [
        (f"sasl.jaas.config={MODULE};", "SASL_PLAINTEXT", "client.properties:2: security.protocol: .* needs TLS"),
        (f"sasl.jaas.config={MODULE} awsRoleSecretAccessKey=hunter2;", "SASL_SSL", "lacks: awsRoleSecretAccessKey"),
        (f"sasl.jaas.config={MODULE} awsStsRegion=eu-west-1;", "SASL_SSL", "need a role"),
        ('sasl.jaas.config=PlainLoginModule required username="u" password="hunter2";', "SASL_SSL", "does not support"),
    ],
)
def test_settings_with_another_meaning_are_refused(line: str, protocol: str, why: str) -> None:
    with pytest.raises(BadKafkaConfig, match=why) as caught:
        read(line, protocol=protocol)
    assert "hunter2" not in str(caught.value) + caught.value.hint


@pytest.mark.parametrize(
    ("host", "region"),
    [
        (HOST, "eu-west-1"),
        ("boot-a1.c1.kafka-serverless.us-east-2.amazonaws.com", "us-east-2"),
        ("b-2.x.y.c4.kafka.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        ("b-2.x.y.c4.kafka.us-gov-west-1.amazonaws.com.", "us-gov-west-1"),
        ("kafka.example.com", ""),
        ("b-1.kafka.eu-west-1.amazonaws.com.example.com", ""),
    ],
)
def test_the_region_is_in_the_name_of_the_broker(host: str, region: str) -> None:
    assert region_of(host) == region


@pytest.mark.usefixtures("key")
def test_a_signature_of_the_environment_s_key_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    log_in(MskBroker(AKIA1=AwsKey(secret=SECRET)))
    monkeypatch.setenv("AWS_SESSION_TOKEN", "tok/en+with=signs")
    log_in(MskBroker(AKIA1=AwsKey(secret=SECRET, token="tok/en+with=signs")))


@pytest.mark.usefixtures("key")
@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"AKIA1": AwsKey(secret="another")}, "wrong signature"),
        ({"AKIA1": AwsKey(secret=SECRET, token="t")}, "other fields"),
        ({}, "unknown access key"),
    ],
)
def test_a_wrong_key_is_denied_and_never_shown(keys: dict[str, AwsKey], why: str) -> None:
    with pytest.raises(KafkaAuthenticationFailed, match=why) as caught:
        log_in(MskBroker(**keys))
    assert "kafka-cluster:Connect" in caught.value.hint
    assert SECRET not in str(caught.value) + caught.value.hint


@pytest.mark.usefixtures("key")
def test_a_signature_is_for_one_broker_and_a_quarter_of_an_hour() -> None:
    broker = MskBroker(AKIA1=AwsKey(secret=SECRET))
    with pytest.raises(KafkaAuthenticationFailed, match="for another broker"):
        log_in(broker, host=HOST.replace("b-1", "b-2"))
    broker.judge.now = lambda: utc_now() + datetime.timedelta(minutes=16)
    with pytest.raises(KafkaAuthenticationFailed, match="expired"):
        log_in(broker)


@pytest.mark.usefixtures("key")
def test_a_broker_of_another_name_takes_the_region_of_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = MskBroker(AKIA1=AwsKey(secret=SECRET))
    broker.judge.host = "localhost"
    with pytest.raises(BadKafkaConfig, match="has no AWS region") as caught:
        log_in(broker, host="localhost")
    assert "AWS_REGION" in caught.value.hint
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    log_in(broker, host="localhost")


def test_a_profile_is_read_again_by_each_login(aws: Path) -> None:
    for secret in ("first", "second"):
        aws.write_text(f"[backup]\naws_access_key_id=AKIA2\naws_secret_access_key={secret}\n")
        log_in(MskBroker(AKIA2=AwsKey(secret=secret)), AwsLogin(profile="backup"))


def test_without_credentials_the_way_to_some_is_named() -> None:
    began_s = time.monotonic()
    with pytest.raises(KafkaAuthenticationFailed, match=f"no AWS credentials on {gethostname()}") as caught:
        log_in(MskBroker())
    assert "AWS_PROFILE" in caught.value.hint
    with pytest.raises(KafkaAuthenticationFailed, match="ProfileNotFound"):
        log_in(MskBroker(), AwsLogin(profile="none"))
    assert time.monotonic() - began_s < 10


@pytest.mark.usefixtures("key")
def test_without_botocore_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    with pytest.raises(BadKafkaConfig, match="needs botocore") as caught:
        log_in(MskBroker(AKIA1=AwsKey(secret=SECRET)))
    assert "offsite[msk]" in caught.value.hint


class Sts:
    """Gives a role away, with credentials of `lifetime_s`; `asked` are the requests."""

    def __init__(self) -> None:
        self.lifetime_s, self.status, self.asked = 3600, 200, list[str]()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.asked.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
                body = outer.answer().encode()
                self.send_response(outer.status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def answer(self) -> str:
        if self.status != 200:
            return f"<ErrorResponse><Error><Code>AccessDenied</Code><Message>{SECRET}</Message></Error></ErrorResponse>"
        ends = utc_now() + datetime.timedelta(seconds=self.lifetime_s)
        return (
            "<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>ASIA3</AccessKeyId><SecretAccessKey>"
            f"of-role</SecretAccessKey><SessionToken>t{len(self.asked)}</SessionToken><Expiration>"
            f"{ends:%Y-%m-%dT%H:%M:%SZ}</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"
        )


@pytest.fixture
def sts(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sts]:
    service = Sts()
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", f"http://127.0.0.1:{service.server.server_port}")
    yield service
    service.server.shutdown()
    service.server.server_close()


@pytest.mark.usefixtures("key")
def test_a_role_is_taken_on_once_and_again_before_it_ends(sts: Sts) -> None:
    login = AwsLogin(role_arn="arn:aws:iam::123456789012:role/backup", external_id="ours")
    for _ in range(2):
        log_in(MskBroker(ASIA3=AwsKey(secret="of-role", token="t1")), login)
    assert len(sts.asked) == 1
    assert "ExternalId=ours" in sts.asked[0]
    sts.lifetime_s = 300  # botocore renews what ends within ten minutes
    msk._renewing.clear()
    log_in(MskBroker(ASIA3=AwsKey(secret="of-role", token="t2")), login)
    log_in(MskBroker(ASIA3=AwsKey(secret="of-role", token="t3")), login)


@pytest.mark.usefixtures("key")
def test_a_role_that_is_refused_is_named_without_what_sts_says(sts: Sts) -> None:
    sts.status = 403
    with pytest.raises(KafkaAuthenticationFailed, match="AccessDenied") as caught:
        log_in(MskBroker(), AwsLogin(role_arn="arn:aws:iam::123456789012:role/backup"))
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("process", "why"),
    [
        (f"echo {SECRET}", "JSONDecodeError"),
        ("/no/such/program", "FileNotFoundError"),
        ("echo 377", "AttributeError"),
        (f"echo '{ENDED}'", "RuntimeError"),  # or the clock of this machine is wrong
    ],
    ids=["no JSON", "no program", "no object", "ended"],
)
def test_a_program_that_gives_no_credentials_is_one_error(aws: Path, process: str, why: str) -> None:
    aws.write_text(f"[backup]\ncredential_process = {process}\n")
    with pytest.raises(KafkaAuthenticationFailed, match=why) as caught:
        log_in(MskBroker(), AwsLogin(profile="backup"))
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("profile", ["backup", "role"], ids=["its own", "of its source"])
def test_a_program_that_hangs_is_ended_and_one_login_waits_for_it(
    aws: Path, monkeypatch: pytest.MonkeyPatch, profile: str
) -> None:
    """Also the program of a profile whose credentials take on a role. Who logs in soon after does not start another."""
    monkeypatch.setattr(msk, "_PROGRAM_LIMIT_S", 0.5)
    (pids := aws.parent / "pids").touch()
    (program := aws.parent / "hangs").write_text(f"#!/bin/sh\necho $$ >> {pids}\nexec sleep 600\n")
    program.chmod(0o755)
    aws.write_text(f"[backup]\ncredential_process = {program}\n")
    role = "role_arn=arn:aws:iam::123456789012:role/backup\nsource_profile=backup\nregion=eu-west-1\n"
    (aws.parent / "config").write_text(f"[profile role]\n{role}")
    for _ in range(3):
        with pytest.raises(TokenEndpointUnavailable, match=r"program .* has not ended within 0\.5 s") as caught:
            log_in(MskBroker(), AwsLogin(profile=profile))
        assert "credential_process" in caught.value.hint
    (pid,) = map(int, pids.read_text().split())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_program_that_hung_is_asked_again_later(aws: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(msk, "_PROGRAM_LIMIT_S", 0.5)
    (ready := aws.parent / "ready").unlink(missing_ok=True)
    key = '{"Version": 1, "AccessKeyId": "AKIA2", "SecretAccessKey": "right"}'
    (program := aws.parent / "late").write_text(f"#!/bin/sh\ntest -e {ready} || exec sleep 600\necho '{key}'\n")
    program.chmod(0o755)
    aws.write_text(f"[backup]\ncredential_process = {program}\n")
    with pytest.raises(TokenEndpointUnavailable):
        log_in(MskBroker(), AwsLogin(profile="backup"))
    ready.touch()
    monkeypatch.setattr(msk, "_PROGRAM_LIMIT_S", 30)
    monkeypatch.setattr(msk, "_hung", dict.fromkeys(msk._hung, 0.0))  # half a second is over
    log_in(MskBroker(AKIA2=AwsKey(secret="right")), AwsLogin(profile="backup"))


def test_a_profile_that_asks_a_person_is_refused(aws: Path) -> None:
    """A run has nobody to ask, and would wait for an answer for ever."""
    aws.write_text("[keys]\naws_access_key_id=AKIA2\naws_secret_access_key=b\n")
    role = "role_arn=arn:aws:iam::123456789012:role/backup\nsource_profile=keys\nregion=eu-west-1"
    (aws.parent / "config").write_text(f"[profile backup]\n{role}\nmfa_serial=arn:aws:iam::123456789012:mfa/me\n")
    with pytest.raises(KafkaAuthenticationFailed, match="mfa_serial") as caught:
        log_in(MskBroker(), AwsLogin(profile="backup"))
    assert "session" in caught.value.hint


@pytest.mark.parametrize("status", [None, 503])
def test_an_sts_that_is_down_is_an_outage(
    monkeypatch: pytest.MonkeyPatch, aws: Path, sts: Sts, status: int | None
) -> None:
    """Also for a role of a profile, whose client botocore makes."""
    aws.write_text("[keys]\naws_access_key_id=AKIA2\naws_secret_access_key=b\n")
    role = "role_arn=arn:aws:iam::123456789012:role/backup\nsource_profile=keys"
    (aws.parent / "config").write_text(f"[profile backup]\n{role}\nregion=eu-west-1\n")
    if status is None:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", "http://127.0.0.1:1")
    else:
        sts.status = status
    for login in (AwsLogin(profile="backup"), AwsLogin(profile="keys", role_arn="arn:aws:iam::123456789012:role/b")):
        with pytest.raises(KafkaUnreachable):
            log_in(MskBroker(), login)


def test_every_client_of_aws_has_limits() -> None:
    config = msk._session(AwsLogin()).get_default_client_config()
    assert (config.connect_timeout, config.read_timeout) == (4, 4)
