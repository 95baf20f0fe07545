"""Settings that a broker calls secret have no value here, even from a broker that tells it."""

from __future__ import annotations

from offsite.kafka.protocol.configs import dynamic_configs_request, group_configs_request
from offsite.kafka.protocol.wire import Decoder, Encoder

OF_ALL_BROKERS, OF_GROUP = 3, 8


def answer(name: str, source: int) -> Decoder:
    def entry(out: Encoder, setting: tuple[str, str, bool]) -> None:
        out.string(setting[0]).string(setting[1]).boolean(False).i8(source).boolean(setting[2]).array(
            [], Encoder.string
        )

    def resource(out: Encoder, settings: list[tuple[str, str, bool]]) -> None:
        out.i16(0).string(None).i8(4).string(name).array(settings, entry)

    body = (
        Encoder()
        .i32(0)
        .array([[("maker.cloud.api.key", "hunter2", True), ("log.cleaner.threads", "2", False)]], resource)
    )
    return Decoder(memoryview(body.done()))


def test_a_secret_of_all_brokers_is_named_without_its_value() -> None:
    settings = dynamic_configs_request(1).parse(answer("1", OF_ALL_BROKERS))
    assert settings[""] == {"maker.cloud.api.key": None, "log.cleaner.threads": "2"}


def test_a_secret_of_a_group_is_left_out() -> None:
    settings = group_configs_request(["payers"]).parse(answer("payers", OF_GROUP))
    assert settings == {"payers": {"log.cleaner.threads": "2"}}
