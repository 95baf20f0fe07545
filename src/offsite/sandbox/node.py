"""One process of a running sandbox, to be ended, frozen and started again alone, as tests of outages do."""

from __future__ import annotations

import signal

from offsite.model.clock import Clock
from offsite.model.errors import SandboxFailed
from offsite.sandbox import process
from offsite.sandbox.launch import await_all, begin_again
from offsite.sandbox.layout import Node
from offsite.sandbox.ports import HOST
from offsite.sandbox.process import NodeState, read_state
from offsite.sandbox.settings import PLAINTEXT

STOP_PATIENCE_S = 15.0  # a clean shutdown takes 0.5 s; afterwards the broker is killed, and the log survives


class SandboxNode:
    """One process of a sandbox, made by `Sandbox.broker` and `Sandbox.keeper`. Reads the disk at every call, and so
    never goes stale."""

    def __init__(self, node: Node, clock: Clock) -> None:
        self._node = node
        self._clock = clock

    @property
    def node_id(self) -> int:
        return self._node.node_id

    @property
    def name(self) -> str:
        return self._node.name

    @property
    def serves_clients(self) -> bool:
        return self._node.serves_clients

    @property
    def bootstrap(self) -> str:
        """host:port of this broker alone."""
        return f"{HOST}:{self._node.ports[PLAINTEXT]}"

    @property
    def pid(self) -> int:
        """The process id; 0 while stopped."""
        return self._state().process.pid if self.is_running() else 0

    def is_running(self) -> bool:
        """Whether the process exists, frozen or not."""
        return self._state().process.is_running()

    def kill(self) -> None:
        """End the process as a crash would: no shutdown, no flush."""
        self._state().process.send(signal.SIGKILL)
        process.wait_until_gone(self._state().process, clock=self._clock, limit_s=STOP_PATIENCE_S)

    def ask_to_stop(self) -> None:
        """Begin the shutdown that `stop` waits for."""
        self.resume()
        self._state().process.send(signal.SIGTERM)

    def stop(self) -> bool:
        """End the process cleanly, by force if it does not react. True after a clean end."""
        return process.stop(self._state().process, clock=self._clock, patience_s=STOP_PATIENCE_S)

    def pause(self) -> None:
        """Freeze the process: it keeps its connections and answers nobody."""
        self._state().process.send(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a frozen process continue, unaware of the passed time."""
        self._state().process.send(signal.SIGCONT)

    def start(self) -> None:
        """Start the process again with its data on its ports; returns when it serves. Does nothing for a running
        process.

        Raises `SandboxFailed`.
        """
        if not self.is_running():
            launched = begin_again(self._node, self._state().command)
            brokers = [self.node_id] if self._node.serves_clients else []
            if not await_all([launched], clock=self._clock, brokers=brokers):
                raise SandboxFailed(f"a port of {self.name} was taken by someone else while it was down")

    def _state(self) -> NodeState:
        state = read_state(self._node.folder)
        if state is None:
            raise SandboxFailed(f"{self.name} was never started")
        return state
