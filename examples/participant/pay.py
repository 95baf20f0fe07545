"""Reads orders and writes a payment for each, as a participant of checkpoints.

python pay.py --bootstrap localhost:9092 [--client kafka-python] [--form acks --name payer-1]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping

from offsite_participant import confluent, kafka_python
from offsite_participant.control import CONTROL_TOPIC
from offsite_participant.core import Hooks
from offsite_participant.errors import LeaseLost, NotCommitted, NotDelivered
from offsite_participant.number import Form, TopicPartition
from offsite_participant.participant import Participant, Settings
from offsite_participant.ports import Record

BATCH = 100


def main(arguments: list[str]) -> None:
    options = _options().parse_args(arguments)
    with _participant(options) as payer:
        _pay_all(payer, options.payments, count=options.count)


def _pay_all(payer: Participant, payments: str, *, count: float) -> None:
    """Until `count` orders are committed. An output that is lost is no end: `poll` goes back to what was committed
    last."""
    done = uncommitted = 0
    while done < count:
        try:
            order = payer.poll(0.5)
            if order is not None:
                _pay(payer, order, payments)
                uncommitted += 1
            if uncommitted >= min(BATCH, count - done) or order is None:
                payer.commit()
                done, uncommitted = done + uncommitted, 0
        except (LeaseLost, NotDelivered, NotCommitted) as problem:
            print(f"once more: {problem}", file=sys.stderr)
            uncommitted = 0


def _pay(payer: Participant, order: Record, payments: str) -> None:
    """The key says which order it is for: after a crash or a restore an order may be paid once more."""
    order_id = f"{order.topic}/{order.partition}@{order.offset}"
    payment = {"order": order_id, "amount": json.loads(order.value or b"{}").get("amount", 0)}
    payer.produce(payments, json.dumps(payment).encode(), key=order_id.encode())


def _tell(number: int, positions: Mapping[TopicPartition, int]) -> None:
    """An application with a state of its own would save it here, under the number, with the positions."""
    print(f"checkpoint {number} at {', '.join(f'{where}@{offset}' for where, offset in sorted(positions.items()))}")


def _participant(options: argparse.Namespace) -> Participant:
    settings = Settings(
        form=Form(options.form),
        name=options.name,
        control_topic=options.control_topic,
        hooks=Hooks(on_checkpoint=_tell),
    )
    if options.client == "kafka-python":
        producer = {"bootstrap_servers": options.bootstrap}
        consumer = {**producer, "group_id": options.group, "auto_offset_reset": "earliest"}
        return kafka_python.participant(
            producer=producer, consumer=consumer, topics=[options.orders], settings=settings
        )
    producer = {"bootstrap.servers": options.bootstrap}
    consumer = {**producer, "group.id": options.group, "auto.offset.reset": "earliest"}
    return confluent.participant(producer=producer, consumer=consumer, topics=[options.orders], settings=settings)


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--client", choices=("confluent", "kafka-python"), default="confluent")
    parser.add_argument("--form", choices=[each.value for each in Form], default=Form.MARKERS.value)
    parser.add_argument("--name", default="", help="of this process; form acks needs one")
    parser.add_argument("--group", default="payers")
    parser.add_argument("--orders", default="orders")
    parser.add_argument("--payments", default="payments")
    parser.add_argument("--control-topic", default=CONTROL_TOPIC)
    parser.add_argument("--count", type=float, default=float("inf"), help="end after so many orders")
    return parser


if __name__ == "__main__":
    main(sys.argv[1:])
