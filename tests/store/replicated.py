"""A primary with replicas and Sentinels for tests, all of them real and on loopback."""

from __future__ import annotations

import os
import signal
import socket
import uuid
from typing import Any

import hiredis

from tests.store.servers import Server, free_port
from tests.waiting import MAX_WAIT, until

NAME = "mymaster"
DOWN_AFTER = 1000  # milliseconds
LOGIN = "kapi:pw"
#: milliseconds; a tenth of what is usual, so that a former primary becomes a replica after one second and not after eight.
#: Those of pings and questions stay: Sentinels that all notice an outage in the same moment vote for themselves
PERIODS = {"info-period": 1000, "publish-period": 200}
DURABLE = {
    "appendonly": "yes",
    "appendfsync": "always",
    "repl_diskless_sync_delay": "0",
    "repl_diskless_load": "swapdb",  # from a file it is loaded when a timer fires, once a second
    "user": "kapi on >pw ~* &* +@all",
}


def ask(port: int, *words: object, login: tuple[str, ...] = ()) -> Any:
    """One command on a connection of its own; an error is answered as one."""
    with socket.create_connection(("127.0.0.1", port), timeout=MAX_WAIT) as connection:
        reader = hiredis.Reader()
        if login:
            connection.sendall(hiredis.pack_command(("AUTH", *login)))
            assert connection.recv(100) == b"+OK\r\n"
        connection.sendall(hiredis.pack_command(tuple(str(word) for word in words)))
        while (reply := reader.gets()) is False:
            data = connection.recv(65536)
            if not data:
                raise ConnectionResetError
            reader.feed(data)
        return reply


class Replicated:
    """``sentinels`` 0 makes no Sentinel: then ``url`` is the primary's own."""

    def __init__(self, replicas: int = 1, sentinels: int = 3, password: str = "", **settings: str) -> None:
        settings = {**DURABLE, **settings}
        self.primary = Server(**settings)
        self.replicas = [Server(**settings) for _ in range(replicas)]
        for replica in self.replicas:  # by a command and one by one: otherwise they wait for a timer of a second
            assert ask(replica.port, "REPLICAOF", "127.0.0.1", self.primary.port) == b"OK"
            self._until(lambda replica=replica: self._follows(replica))
        quorum = sentinels // 2 + 1
        lines = [
            f"sentinel monitor {NAME} 127.0.0.1 {self.primary.port} {quorum}",
            f"sentinel down-after-milliseconds {NAME} {DOWN_AFTER}",
            f"sentinel failover-timeout {NAME} 6000",
        ]
        if password:
            lines += [f"requirepass {password}", f"sentinel sentinel-pass {password}"]
        # each is told of the others, and of the replicas: to find them takes two seconds
        lines += [f"sentinel known-replica {NAME} 127.0.0.1 {replica.port}" for replica in self.replicas]
        ids = {str(free_port()): uuid.uuid4().hex + "0" * 8 for _ in range(sentinels)}  # by port
        known = {port: f"sentinel known-sentinel {NAME} 127.0.0.1 {port} {name}" for port, name in ids.items()}
        self.sentinels = []
        for port, name in ids.items():
            others = [line for other, line in known.items() if other != port]
            text = "\n".join([f"sentinel myid {name}", *lines, *others])
            self.sentinels.append(Server(sentinel=text, port=port))
            ask(port, "SENTINEL", "DEBUG", *(word for each in PERIODS.items() for word in each))
        self.servers = [self.primary, *self.replicas]
        if sentinels and not password:
            self._until(lambda: all(self._knows_all(sentinel) for sentinel in self.sentinels))

    @property
    def url(self) -> str:
        if not self.sentinels:
            return self.primary.url
        return f"redis+sentinel://{LOGIN}@{','.join(f'127.0.0.1:{each.port}' for each in self.sentinels)}/{NAME}"

    def stop(self) -> None:
        for server in (*self.sentinels, *self.servers):
            server.stop()

    def signal(self, server: Server, number: int) -> None:
        os.kill(server.process.pid, number)

    def isolate(self) -> None:
        """The primary is cut off from its replicas and the Sentinels, but not from who logs in as USER.

        It goes on as a primary, and never hears that it was replaced.
        """
        for words in (("ACL", "SETUSER", "default", "off"), ("CLIENT", "KILL", "USER", "default", "SKIPME", "yes")):
            ask(self.primary.port, *words, login=("kapi", "pw"))

    def calm(self) -> None:
        """From here on the Sentinels take no server for down that only answers late, as on a machine with much to do."""
        self._take_for_down_after(60_000)

    def alarm(self) -> None:
        """From here on they do again."""
        self._take_for_down_after(DOWN_AFTER)

    def _take_for_down_after(self, milliseconds: int) -> None:
        for sentinel in self.sentinels:
            assert ask(sentinel.port, "SENTINEL", "SET", NAME, "down-after-milliseconds", milliseconds) == b"OK"

    def cut_off(self, *replicas: Server) -> None:
        """The primary loses these replicas: they are stopped, so that they confirm nothing."""
        for replica in replicas:
            self.signal(replica, signal.SIGSTOP)

    def _follows(self, replica: Server) -> bool:
        return b"master_link_status:up" in ask(replica.port, "INFO", "replication")

    def _knows_all(self, sentinel: Server) -> bool:
        """And is connected to all."""

        def states(kind: str, field: bytes) -> list[bytes]:
            found = ask(sentinel.port, "SENTINEL", kind, NAME)
            return [dict(zip(each[::2], each[1::2], strict=True))[field] for each in found]

        return states("REPLICAS", b"master-link-status") == [b"ok"] * len(self.replicas) and states(
            "SENTINELS", b"flags"
        ) == [b"sentinel"] * (len(self.sentinels) - 1)

    def _until(self, condition: Any) -> None:
        until(condition)
