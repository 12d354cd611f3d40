"""Flower in one process: its own apps, messages and contexts, and a Grid without processes or sockets.

What travels is packed and unpacked as between machines, so that nothing gets through by being the same object.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import define, field

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"  # Flower reads it on import


@define
class Network:
    """Nodes with a ClientApp, and faults in their messages.

    Attributes:
        app: The ClientApp.
        contexts: Of each node, packed.
        online: The nodes that Flower lists, asked every time.
        lost: Whether node ``n`` never gets the message that is its ``k``-th of kind ``train``.
        late: Whether the reply to it never arrives.
        delay: How many seconds the reply takes.
        changed: What becomes of a reply on its way.
        replies: All that nodes have said, packed.
        copies: How often every message is delivered.
        now: Seconds on the clock, which goes on by sleeping alone.
    """

    app: Any
    contexts: dict[int, Any]
    online: Callable[[], list[int]]
    lost: Callable[[int, int], bool] = lambda node, k: False
    late: Callable[[int, int], bool] = lambda node, k: False
    delay: Callable[[int, int], float] = lambda node, k: 0.0
    changed: Callable[[int, int, Any], Any] = lambda node, k, reply: reply
    replies: list[bytes] = field(factory=list)
    copies: int = 1
    now: float = 0.0
    counts: dict[int, int] = field(factory=dict)

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def deliver(self, message: Any) -> Any | None:
        """The reply to a message, as the server gets it."""
        from flwr.common.serde import context_from_proto, context_to_proto

        node = message.metadata.dst_node_id
        train = message.metadata.message_type == "train"
        self.counts[node] = k = self.counts.get(node, 0) + train
        if train and self.lost(node, k):
            return None
        for _ in range(self.copies):
            context = context_from_proto(self.contexts[node])
            reply = self.app(self.packed(message), context)
            self.contexts[node] = context_to_proto(context)
            self.packed(reply, keep=True)
        if train and self.late(node, k):
            return None
        return self.packed(self.changed(node, k, reply) if train else reply)

    def packed(self, message: Any, *, keep: bool = False) -> Any:
        """A message after its way through the wire."""
        from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
        from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents

        contents = {number: each.deflate() for number, each in get_all_nested_objects(message).items()}
        if keep:
            self.replies.extend(contents.values())
        found = inflate_object_from_contents(message.object_id, contents)
        found.metadata.__dict__["_message_id"] = message.metadata.message_id
        return found

    def grid(self) -> Any:
        """A Grid to these nodes."""
        from flwr.serverapp import Grid

        network = self

        class InProcessGrid(Grid):  # type: ignore[misc]
            def __init__(self) -> None:
                self.box: dict[str, tuple[float, Any]] = {}
                self.count = 0

            def set_run(self, run: Any) -> None: ...

            @property
            def run(self) -> None: ...

            def create_message(self, *args: Any, **kwargs: Any) -> Any:
                raise NotImplementedError

            def get_node_ids(self) -> list[int]:
                return network.online()

            def push_messages(self, messages: Any) -> list[str]:
                numbers = []
                for message in messages:
                    self.count += 1
                    number = f"message {self.count}"
                    message.metadata.__dict__["_message_id"] = number
                    reply = network.deliver(message)
                    if reply is not None:
                        node = message.metadata.dst_node_id
                        self.box[number] = network.now + network.delay(node, network.counts[node]), reply
                    numbers.append(number)
                return numbers

            def pull_messages(self, message_ids: Any) -> list[Any]:
                ready = [number for number in message_ids if self.box.get(number, (np.inf,))[0] <= network.now]
                return [self.box.pop(number)[1] for number in ready]

            def send_and_receive(self, messages: Any, *, timeout: float | None = None) -> list[Any]:
                return self.pull_messages(self.push_messages(messages))

        return InProcessGrid()


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., Network]]:
    """Makes a Network of nodes with the given settings, numbered 101, 102, ... in their order, in run 7, 8, ..."""
    from flwr.app import Context, RecordDict
    from flwr.common.serde import context_to_proto
    from flwr.supercore.task_identity import TaskIdentity

    from hockeystick.learners.network import flower

    before = TaskIdentity._run_id, TaskIdentity._node_id, TaskIdentity._task_id
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 6, 0, 1
    monkeypatch.setenv("FLWR_HOME", str(tmp_path))

    def made(app: Any, configs: list[dict[str, Any]], **how: Any) -> Network:
        TaskIdentity.run_id += 1
        contexts = {
            101 + i: context_to_proto(Context(TaskIdentity.run_id, 101 + i, dict(config), RecordDict(), {}))
            for i, config in enumerate(configs)
        }
        found = Network(app, contexts, **{"online": lambda: list(contexts), **how})
        monkeypatch.setattr(flower, "time", found)
        return found

    yield made
    TaskIdentity._run_id, TaskIdentity._node_id, TaskIdentity._task_id = before
