"""Connections that come at once to a socket that several processes listen on."""

from __future__ import annotations

import errno
import socket
from collections import Counter
from typing import Any

from twisted.internet import reactor
from twisted.internet.task import deferLater
from twisted.trial.unittest import SynchronousTestCase

from kapi.serving.listen import BACKLOG, ListenError, Port, bind, default_address, listen, socket_name
from kapi.serving.site import Connections
from kapi.wire.tls.server import KeyPair, ServerContexts, TLSSettings
from tests.serving.sockets import SocketCase
from tests.waiting import eventually


class FullConnections(Connections):
    full = True


class Taken(SynchronousTestCase):
    def test_a_port_of_another_process_is_named(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as other:
            where = f"127.0.0.1:{other.getsockname()[1]}"
            with self.assertRaisesRegex(ListenError, f"^{where} is in use by another process$"):
                bind("127.0.0.1", other.getsockname()[1], False)

    def test_of_two_that_have_bound_a_port_one_may_listen(self) -> None:
        with bind("127.0.0.1", 0, False) as first, bind("127.0.0.1", first.getsockname()[1], False) as second:
            listen(first)
            with self.assertRaisesRegex(ListenError, f"^{socket_name(second)} is in use by another process$"):
                listen(second)

    def test_an_address_of_another_machine_is_named(self) -> None:
        with self.assertRaisesRegex(ListenError, "^cannot listen on 192.0.2.1:0: Cannot assign requested address$"):
            bind("192.0.2.1", 0, False)


class Advertised(SynchronousTestCase):
    """Upstream: apimachinery ``util/net.ResolveBindAddress``."""

    def test_a_bound_address_is_advertised_itself(self) -> None:
        self.patch(socket, "socket", lambda *of: self.fail("looked for another"))
        for address in ("192.0.2.7", "10.0.0.1", "2001:db8::7"):
            self.assertEqual(default_address(address), address)

    def test_else_that_of_the_interface_with_a_route_to_others(self) -> None:
        routes: dict[int, str] = {}

        class Probe:
            def __init__(self, family: int, kind: int) -> None:
                self.family = family

            def __enter__(self) -> Probe:
                return self

            def __exit__(self, *of: object) -> None: ...

            def connect(self, target: tuple[str, int]) -> None:
                if self.family not in routes:
                    raise OSError(errno.ENETUNREACH, "Network is unreachable")

            def getsockname(self) -> tuple[str, int]:
                return routes[self.family], 1234

        self.patch(socket, "socket", Probe)
        four, six = {socket.AF_INET: "10.0.0.5"}, {socket.AF_INET6: "2001:db8::5"}
        for found, wanted in (
            ({**four, **six}, "10.0.0.5"),
            (four, "10.0.0.5"),
            (six, "2001:db8::5"),
            ({}, "127.0.0.1"),
        ):
            routes.clear()
            routes.update(found)
            for address in ("0.0.0.0", "::", "127.0.0.1", "::1"):
                self.assertEqual(default_address(address), wanted)


class SharedSocket(SocketCase):
    """Two ports in one process, as two processes have them."""

    async def test_many_connections_are_shared_by_who_listens(self) -> None:
        taken = self.listen()
        await eventually(lambda: taken.total() == 10)
        assert taken == {0: 5, 1: 5}

    async def test_who_has_taken_one_leaves_the_next_to_others_for_a_while(self) -> None:
        self.patch(Port, "pause", 3600)
        taken = self.listen()
        await eventually(lambda: taken.total() >= 2)
        for _ in range(5):
            await deferLater(reactor, 0)  # type: ignore[arg-type]
        assert taken == {0: 1, 1: 1}

    async def test_who_has_no_place_leaves_them_to_others(self) -> None:
        self.patch(Port, "full_pause", 3600)
        taken = self.listen(full=1)
        await eventually(lambda: taken.total() == 10)
        assert taken[1] <= 1

    def listen(self, full: int | None = None) -> Counter[int]:
        """How many of ten connections each port has taken so far; one of them may be ``full``."""
        taken: Counter[int] = Counter()
        listener = bind("127.0.0.1", 0, False)
        listener.listen(BACKLOG)
        for _ in range(10):
            client = socket.create_connection(listener.getsockname())
            self.addCleanup(client.close)
        contexts = ServerContexts(TLSSettings(KeyPair(str(self.files.serving), str(self.files.serving_key))))
        for number, shared in enumerate((listener.dup(), listener)):
            connections = (FullConnections if number == full else Connections)(self.api.server, self.clock)
            connections.run_by(self.api.runner)
            build = connections.buildProtocol

            def counted(address: Any, number: int = number, build: Any = build) -> Any:
                taken[number] += 1
                return build(address)

            connections.buildProtocol = counted  # type: ignore[method-assign]
            port = Port(reactor, shared, connections, contexts, shared=True)
            self.addCleanup(connections.all_closed)
            self.addCleanup(connections.abort_all)
            self.addCleanup(port.stop)
        return taken
