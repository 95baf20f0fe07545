"""Coordinators that move, load, hang up or refuse, as a router with made-up brokers shows them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from offsite.kafka.coordinators import CoordinatorNode
from offsite.kafka.group_coordinators import COORDINATOR_MAX_S, LANES, GroupCoordinators
from offsite.kafka.groups import GroupClient
from offsite.kafka.protocol.groups import GroupAnswer, ListedGroup, fetch_offsets_request
from offsite.kafka.protocol.request import Api, Request
from offsite.model.errors import KafkaTimeout, KafkaUnreachable
from tests.virtual_time import VirtualClock

LOADING, NOT_AVAILABLE, MOVED, NOT_AUTHORISED, HAS_MEMBERS = 14, 15, 16, 30, 25


class FakeRouter:
    """`nodes` says who coordinates which group (a broker, or an error code below 0). `codes` are what groups are told,
    one after the other, then 0. A broker in `down` hangs up once for each time it is there."""

    def __init__(self, nodes: dict[str, int], codes: Mapping[str, Sequence[int]] | None = None) -> None:
        self.nodes = nodes
        self.codes = {group: deque(each) for group, each in (codes or {}).items()}
        self.down: list[int] = []
        self.asked: list[tuple[int, tuple[str, ...]]] = []
        self.finds = 0
        self.open = 0

    def metadata(self, _topics: object) -> SimpleNamespace:
        return SimpleNamespace(brokers={1: None})

    @contextmanager
    def lease_any(self) -> Iterator[AnyConnection]:
        yield AnyConnection(self)

    def find(self, request: Request[Mapping[str, CoordinatorNode]]) -> Mapping[str, CoordinatorNode]:
        assert request.api is Api.FIND_COORDINATOR
        self.finds += 1
        return {
            group: CoordinatorNode(node_id=node, error_code=0)
            if node >= 0
            else CoordinatorNode(node_id=-1, error_code=-node)
            for group, node in self.nodes.items()
            if group.encode() in request.body
        }

    @contextmanager
    def lease_broker(self, node_id: int) -> Iterator[FakeConnection]:
        self.open += 1
        yield FakeConnection(self, node_id)
        self.open -= 1

    def answer(self, node_id: int, groups: tuple[str, ...]) -> dict[str, GroupAnswer]:
        if node_id in self.down:
            self.down.remove(node_id)
            raise KafkaUnreachable("connection lost")
        self.asked.append((node_id, groups))
        return {group: GroupAnswer(error_code=self._code(node_id, group)) for group in groups}

    def _code(self, node_id: int, group: str) -> int:
        if self.nodes[group] != node_id:
            return MOVED
        codes = self.codes.get(group)
        return codes.popleft() if codes else 0


class AnyConnection:
    """To whichever broker: it finds coordinators, and tells versions."""

    def __init__(self, router: FakeRouter) -> None:
        self.call = router.find

    def highest_version(self, _api: Api, _lowest: int, highest: int) -> int:
        return highest


class FakeConnection:
    def __init__(self, router: FakeRouter, node_id: int) -> None:
        self.router = router
        self.node_id = node_id

    def highest_version(self, _api: Api, _lowest: int, highest: int) -> int:
        return highest

    def post(self, request: Request[Mapping[str, GroupAnswer]]) -> None:
        pass

    def collect(self, request: Request[Mapping[str, GroupAnswer]]) -> dict[str, GroupAnswer]:
        names = tuple(group for group in self.router.nodes if group.encode() + b"\0" in request.body)
        return self.router.answer(self.node_id, names)


def ask(router: FakeRouter, *, per_request: int = 2, coordinators: GroupCoordinators | None = None) -> dict[str, int]:
    coordinators = coordinators or GroupCoordinators(router, VirtualClock())  # type: ignore[arg-type]
    answers = coordinators.ask(
        router.nodes, lambda names: fetch_offsets_request(names, stable=True), per_request=per_request
    )
    return {group: answer.error_code for group, answer in answers.items()}


def test_groups_on_several_coordinators_are_all_found() -> None:
    router = FakeRouter({f"group-{number:02d}-": number % 3 for number in range(20)})
    assert ask(router) == dict.fromkeys(router.nodes, 0)
    assert router.finds == 1
    assert sorted(group for _, groups in router.asked for group in groups) == sorted(router.nodes)
    assert all(router.nodes[group] == node for node, groups in router.asked for group in groups)


def test_no_request_has_more_groups_and_no_broker_more_connections_than_allowed() -> None:
    router = FakeRouter({f"group-{number:03d}-": 1 for number in range(200)})
    most = 0
    lease = router.lease_broker

    @contextmanager
    def counted(node_id: int) -> Iterator[FakeConnection]:
        nonlocal most
        with lease(node_id) as connection:
            most = max(most, router.open)
            yield connection

    router.lease_broker = counted  # type: ignore[method-assign]
    assert ask(router, per_request=3) == dict.fromkeys(router.nodes, 0)
    assert max(len(groups) for _, groups in router.asked) == 3
    assert most == LANES


@pytest.mark.parametrize("code", [LOADING, NOT_AVAILABLE, MOVED])
def test_a_coordinator_that_loads_or_moves_is_asked_again(code: int) -> None:
    router = FakeRouter({"one-": 1, "other-": 2}, {"one-": [code, code]})
    assert ask(router) == {"one-": 0, "other-": 0}
    assert [groups for node, groups in router.asked if node == 2] == [("other-",)], "who has answered is left alone"


def test_a_group_that_moved_is_asked_where_it_is_now() -> None:
    router = FakeRouter({"one-": 1})
    coordinators = GroupCoordinators(router, VirtualClock())  # type: ignore[arg-type]
    ask(router, coordinators=coordinators)
    router.nodes["one-"] = 2
    assert ask(router, coordinators=coordinators) == {"one-": 0}
    assert [node for node, _ in router.asked] == [1, 1, 2]


def test_a_connection_that_is_lost_is_made_again() -> None:
    router = FakeRouter({"one-": 1, "other-": 2})
    router.down = [1, 1]
    assert ask(router) == {"one-": 0, "other-": 0}


def test_a_group_that_stays_without_coordinator_keeps_its_error_and_the_others_their_answers() -> None:
    router = FakeRouter({"lost-": -NOT_AVAILABLE, "one-": 1, "secret-": -NOT_AUTHORISED}, {"one-": [HAS_MEMBERS]})
    clock = VirtualClock()
    coordinators = GroupCoordinators(router, clock)  # type: ignore[arg-type]
    assert ask(router, coordinators=coordinators) == {
        "lost-": NOT_AVAILABLE,
        "one-": HAS_MEMBERS,
        "secret-": NOT_AUTHORISED,
    }
    assert COORDINATOR_MAX_S <= clock.now_s < COORDINATOR_MAX_S + 10
    assert len(router.asked) == 1


def test_brokers_that_never_answer_are_an_error() -> None:
    router = FakeRouter({"one-": 1})
    router.down = [1] * 1000
    with pytest.raises(KafkaUnreachable):
        ask(router)


def test_a_group_that_may_not_be_read_is_named_and_the_others_are_read() -> None:
    router = FakeRouter({"one-": 1, "secret-": -NOT_AUTHORISED})
    client = GroupClient(router, clock=VirtualClock())  # type: ignore[arg-type]
    fetched = client.offsets(ListedGroup(group=name, kind="classic", state="Empty") for name in router.nodes)
    assert list(fetched.groups) == ["one-"]
    (failure,) = fetched.failed
    assert (failure.group, failure.error) == ("secret-", "GROUP_AUTHORIZATION_FAILED")


def test_a_group_that_is_left_out_for_ever_is_named() -> None:
    router = FakeRouter({"one-": 1, "other-": 1})
    answer = router.answer
    router.answer = lambda node, groups: {  # type: ignore[method-assign]
        group: told for group, told in answer(node, groups).items() if group != "other-"
    }
    clock = VirtualClock()
    with pytest.raises(KafkaTimeout, match="leave out group other-"):
        ask(router, coordinators=GroupCoordinators(router, clock))  # type: ignore[arg-type]
    assert COORDINATOR_MAX_S <= clock.now_s < COORDINATOR_MAX_S + 10


def test_a_group_without_a_word_of_its_coordinator_is_named() -> None:
    router = FakeRouter({"one-": 1, "other-": 1})
    find = router.find
    router.find = lambda request: {  # type: ignore[method-assign]
        group: found for group, found in find(request).items() if group != "other-"
    }
    with pytest.raises(KafkaTimeout, match="leave out group other-"):
        ask(router)


def test_groups_that_nobody_asked_about_are_not_taken() -> None:
    router = FakeRouter({"one-": 1})
    find, answer = router.find, router.answer
    strange, refused = CoordinatorNode(node_id=7, error_code=0), CoordinatorNode(node_id=-1, error_code=NOT_AUTHORISED)
    router.find = lambda request: {**find(request), "strange": strange, "refused": refused}  # type: ignore[method-assign]
    router.answer = lambda node, groups: {  # type: ignore[method-assign]
        **answer(node, groups),
        "strange": GroupAnswer(error_code=3),
    }
    assert ask(router) == {"one-": 0}
