"""A participant of form B as a process: it writes all the time, and says so in lines. `python stoppable.py CLIENT
BOOTSTRAP NAME LEASE_MS`; it ends when its input does."""

from __future__ import annotations

import select
import sys

from offsite_participant import confluent, kafka_python
from offsite_participant.errors import LeaseLost, NotDelivered
from offsite_participant.number import Form
from offsite_participant.participant import Participant, Settings


def main(client: str, bootstrap: str, name: str, lease_ms: str) -> None:
    settings = Settings(form=Form.ACKS, name="payer", lease_ms=int(lease_ms), control_topic=f"control-{name}")
    if client == "confluent":
        made = confluent.participant(producer={"bootstrap.servers": bootstrap, "linger.ms": 0}, settings=settings)
    else:
        made = kafka_python.participant(producer={"bootstrap_servers": bootstrap}, settings=settings)
    with made as participant:
        rounds = 0
        while not select.select([sys.stdin], [], [], 0.005)[0]:
            rounds += 1
            _write(participant, f"paid-{name}", is_to_poll=rounds % 20 == 0)


def _write(participant: Participant, topic: str, *, is_to_poll: bool) -> None:
    """It polls now and then: who is stopped is mostly about to produce."""
    try:
        participant.produce(topic, b"paid")
        participant.commit()
        _say(participant.number)
    except (LeaseLost, NotDelivered) as problem:
        _say(type(problem).__name__)
        is_to_poll = True
    if is_to_poll:
        participant.poll(0)


def _say(what: object) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
