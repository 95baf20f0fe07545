"""What offsite asks of Spark where a person has asked for nothing, and what it sees in settings."""

from __future__ import annotations

import pytest

from offsite.engine.settings import accepts_strangers, common_settings


def test_spark_shows_no_pages_and_nobody_can_end_jobs_by_them() -> None:
    settings = common_settings()
    assert (settings["spark.ui.enabled"], settings["spark.ui.killEnabled"]) == ("false", "false")


@pytest.mark.parametrize(
    ("settings", "in_one_jvm", "expected"),
    [
        ({"spark.driver.host": "10.1.2.3"}, False, True),
        ({"spark.driver.host": "10.1.2.3"}, True, True),
        ({}, False, True),
        ({"spark.driver.host": "10.1.2.3", "spark.authenticate": "true"}, False, False),
        ({"spark.driver.host": "127.0.0.1"}, False, True),
        ({"spark.driver.host": "127.0.0.1"}, True, False),
        ({"spark.driver.host": "localhost", "spark.driver.bindAddress": "0.0.0.0"}, True, True),
        ({"spark.driver.host": "10.1.2.3", "spark.network.crypto.enabled": "true"}, False, True),
    ],
)
def test_whoever_reaches_a_spark_without_a_secret_can_send_it_code(
    settings: dict[str, str], in_one_jvm: bool, expected: bool
) -> None:
    """On loopback these are the other users of the machine: each may send applications to a cluster there."""
    assert accepts_strangers(settings, in_one_jvm=in_one_jvm) is expected
