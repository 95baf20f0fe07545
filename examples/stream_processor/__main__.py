"""`python -m examples.stream_processor --help`."""

from __future__ import annotations

import argparse
import json
import logging
import signal
import sys
from dataclasses import asdict, replace
from pathlib import Path
from threading import Event

from examples.stream_processor import place as places
from examples.stream_processor.coordinator import Coordinator
from examples.stream_processor.engine import DEPLOYMENTS_ON, partition_of
from examples.stream_processor.network import Network
from examples.stream_processor.node import Node
from examples.stream_processor.place import Place, begun_of
from examples.stream_processor.records import Message
from examples.stream_processor.restore import restore
from examples.stream_processor.view import read_all
from offsite_participant.bcs_copies import BackupStatus

GOOD = {BackupStatus.COMPLETED}


def main() -> int:
    arguments = _parser().parse_args()
    logging.basicConfig(format="%(asctime)s %(message)s")
    place = Place(
        name=arguments.name, bootstrap=arguments.bootstrap, folder=arguments.folder, store_url=arguments.store
    )
    try:
        return int(arguments.run(place, arguments) or 0)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1


def _create(place: Place, arguments: argparse.Namespace) -> None:
    places.create(place, arguments.partitions, replicas=arguments.replicas)


def _node(place: Place, arguments: argparse.Namespace) -> None:
    stop = Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda *_: stop.set())
    Node(place, stamps=not arguments.without_stamps).run(stop)


def _deploy(place: Place, arguments: argparse.Namespace) -> None:
    body = {"deployment": arguments.what}
    _send(place, Message(to=DEPLOYMENTS_ON, kind="deployment:create", body=body))


def _instance(place: Place, arguments: argparse.Namespace) -> None:
    home = partition_of(arguments.what, begun_of(place).partitions)
    _send(place, Message(to=home, kind="instance:create", body={"instance": arguments.what, "key": arguments.key}))


def _message(place: Place, arguments: argparse.Namespace) -> None:
    to = partition_of(arguments.key, begun_of(place).partitions)
    _send(place, Message(to=to, kind="message:publish", body={"message": arguments.what, "key": arguments.key}))


def _send(place: Place, message: Message) -> None:
    network = Network(place)
    network.send(message)
    network.flush()


def _backup(place: Place, arguments: argparse.Namespace) -> int:
    coordinator, checkpoint = Coordinator(place), arguments.id
    if checkpoint is None:
        checkpoint = coordinator.new_id()
    else:
        coordinator.claim(checkpoint)
    status = coordinator.begin(checkpoint) if arguments.no_wait else coordinator.take(checkpoint)
    print(f"checkpoint {checkpoint}: {status}")
    return status not in ({BackupStatus.COMPLETED, BackupStatus.ONGOING} if arguments.no_wait else GOOD)


def _status(place: Place, arguments: argparse.Namespace) -> int:
    report = Coordinator(place).report(arguments.checkpoint)
    print(f"checkpoint {report.checkpoint}: {report.status}")
    for partition in report.partitions:
        reason = partition.copy.reason if partition.copy else ""
        print(f"  partition {partition.partition}: {partition.status}{reason and f' ({reason})'}")
    return report.status not in GOOD


def _list(place: Place, _arguments: argparse.Namespace) -> None:
    for report in Coordinator(place).list():
        print(f"checkpoint {report.checkpoint}: {report.status}")


def _delete(place: Place, arguments: argparse.Namespace) -> None:
    Coordinator(place).delete(arguments.checkpoint)
    print(f"checkpoint {arguments.checkpoint}: {BackupStatus.DELETED}")


def _clean_up(place: Place, _arguments: argparse.Namespace) -> None:
    for key in Coordinator(place).clean_up():
        print(f"removed {key}")


def _restore(place: Place, arguments: argparse.Namespace) -> None:
    restore(place, arguments.checkpoint, replace(place, name=arguments.to), replicas=arguments.replicas)


def _show(place: Place, _arguments: argparse.Namespace) -> None:
    for number, replica in read_all(place).items():
        state = asdict(replica.state)
        shown = {name: state[name] for name in ("checkpoint", "deployments", "instances", "buffered", "outstanding")}
        print(number, json.dumps(shown, indent=2))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m examples.stream_processor", description=__doc__)
    parser.add_argument("--name", default="processor")
    parser.add_argument("--bootstrap", default="localhost:9092")
    parser.add_argument("--folder", type=Path, default=Path("processor-data"), help="of snapshots, shared by all nodes")
    parser.add_argument("--store", default="processor-backups", help="a folder, or s3://bucket/prefix")
    steps = parser.add_subparsers(required=True, metavar="STEP")
    for name, run, said in (
        ("create", _create, "make its topics"),
        ("node", _node, "lead partitions until stopped; start several"),
        ("deploy", _deploy, "a deployment to all partitions"),
        ("instance", _instance, "begin an instance that waits for a message"),
        ("message", _message, "publish a message"),
        ("backup", _backup, "take a checkpoint, and wait for its end"),
        ("status", _status, "what is known of a checkpoint, and of each partition's part"),
        ("list", _list, "all checkpoints, the newest first"),
        ("delete", _delete, "delete a checkpoint, whatever became of it; its id is never used again"),
        ("clean-up", _clean_up, "remove the files of copies that failed, were abandoned or deleted"),
        ("restore", _restore, "make another one as this was at a checkpoint"),
        ("show", _show, "print the state of all partitions"),
    ):
        _add_options(steps.add_parser(name, help=said), name).set_defaults(run=run)
    return parser


def _add_options(step: argparse.ArgumentParser, name: str) -> argparse.ArgumentParser:
    if name in {"create", "restore"}:
        step.add_argument("--replicas", type=int, default=1, help="of each topic partition")
    if name == "create":
        step.add_argument("--partitions", type=int, default=3)
    if name == "node":
        step.add_argument("--without-stamps", action="store_true", help="to see it go wrong")
    if name in {"deploy", "instance", "message"}:
        step.add_argument("what", help="its name")
    if name in {"instance", "message"}:
        step.add_argument("key")
    if name == "backup":
        step.add_argument("--id", type=int, help="higher than all before (default: the next one)")
        step.add_argument("--no-wait", action="store_true", help="only until all partitions have begun")
    if name in {"status", "delete", "restore"}:
        step.add_argument("checkpoint", type=int)
    if name == "restore":
        step.add_argument("to", help="the name of the new one")
    return step


if __name__ == "__main__":
    sys.exit(main())
