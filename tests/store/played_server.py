"""A store's server that is played in memory: it answers each command in the next turn of the clock."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import hiredis
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import ConnectionAborted, ConnectionDone
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from kapi.store.connection import Connection
from tests.store.test_connection import Transport

ABSENT = b"$-1\r\n"


def resp(value: object) -> bytes:
    """A reply: a text is a status, or an error after ``-``."""
    if value is None:
        return ABSENT
    if isinstance(value, int):
        return b":%d\r\n" % value
    if isinstance(value, bytes):
        return b"$%d\r\n%b\r\n" % (len(value), value)
    if isinstance(value, str):
        return (value if value.startswith("-") else f"+{value}").encode() + b"\r\n"
    assert isinstance(value, list)
    return b"*%d\r\n" % len(value) + b"".join(map(resp, value))


class Played(Transport):
    """The server's end of a connection."""

    def __init__(self, server: Server, connection: Connection) -> None:
        super().__init__()
        self._server, self._connection = server, connection
        self._reader = hiredis.Reader()
        self.open = True

    def write(self, data: bytes) -> None:
        self._reader.feed(data)
        while (words := self._reader.gets()) is not False:
            self._server.clock.callLater(0, self._answer, words)

    def writeSequence(self, data: Iterable[bytes]) -> None:
        self.write(b"".join(data))

    def _answer(self, words: list[bytes]) -> None:
        if not self.open:
            return
        reply = self._server.reply(words)
        if words[0] == b"XREAD" and reply is None:
            self._server.clock.callLater(int(words[4]) / 1000, self._send, reply)
        elif reply is not ...:
            self._send(reply)

    def _send(self, reply: object) -> None:
        if self.open:
            self._connection.dataReceived(resp(reply))

    def abortConnection(self) -> None:
        self.lose(ConnectionAborted())

    def loseConnection(self) -> None:
        self.lose(ConnectionDone())

    def lose(self, why: Exception) -> None:
        """The connection ends in the next turn, as those of a reactor do."""
        if self.open:
            self.open = False
            self._server.open.remove(self)
            self._server.clock.callLater(0, self._connection.connectionLost, Failure(why))


class Server:
    """Its address, and the empty store in it.

    ``refuses`` is the error of attempts to connect, ``...`` when nothing comes of them.  ``answers`` are other replies than the
    usual ones, by the command's first word; ``...`` is none.
    """

    master = ""
    login = ()
    database = 0
    username = ""
    hosts = (("sentinel", 1),)

    def __init__(self) -> None:
        self.clock = Clock()
        self.refuses: Any = None
        self.tried: list[tuple[float, str]] = []  # when, and the host
        self.open: list[Played] = []
        self.asked: list[tuple[bytes, ...]] = []
        self.info = {"redis_version": "7.2.4", "role": "master", "aof_enabled": "1"}
        self.counter, self.run = 0, b"first"
        self.answers: dict[str, Any] = {}
        self.silent = False

    def __str__(self) -> str:
        return "there"

    def endpoint(self, reactor: object, host: str = "", port: int = 0) -> Any:
        self.tried.append((self.clock.seconds(), host))
        return SimpleNamespace(connect=self._connect)

    def _connect(self, factory: Any) -> Deferred[Connection]:
        if self.refuses is ...:
            return Deferred()
        if self.refuses is not None:
            return fail(self.refuses)
        connection = factory.buildProtocol(None)
        self.open.append(Played(self, connection))
        connection.makeConnection(self.open[-1])
        return succeed(connection)

    def reply(self, words: list[bytes]) -> object:
        self.asked.append(tuple(words))
        if self.silent:
            return ...
        name = words[0].decode()
        if name in self.answers:
            answer = self.answers[name]
            return answer(words) if callable(answer) else answer
        return getattr(self, f"_{name.lower()}", lambda words: "-ERR unknown command")(words)

    def count(self, *words: bytes) -> int:
        """How often a command that begins so was sent."""
        return sum(each[: len(words)] == words for each in self.asked)

    def _info(self, words: list[bytes]) -> bytes:
        return "".join(f"{name}:{value}\r\n" for name, value in self.info.items()).encode()

    def _eval(self, words: list[bytes]) -> object:
        if b"acl_check_cmd" in words[1]:
            return [[], []]
        return [b"", []] if b"XREVRANGE" in words[1] else self.counter

    def _config(self, words: list[bytes]) -> list[bytes]:
        return [b"appendfsync", b"always"]

    def _script(self, words: list[bytes]) -> bytes:
        return b"sha"

    def _mget(self, words: list[bytes]) -> list[bytes]:
        return [b"%d" % self.counter, self.run]

    def _get(self, words: list[bytes]) -> bytes:
        return b"%d" % self.counter

    def _type(self, words: list[bytes]) -> str:
        return "none"

    def _hscan(self, words: list[bytes]) -> list[object]:
        return [b"0", []]

    def _xrange(self, words: list[bytes]) -> list[object]:
        return []

    def _xread(self, words: list[bytes]) -> object:
        """None: after the time that it may wait."""

    def _time(self, words: list[bytes]) -> list[bytes]:
        return [b"0", b"0"]

    def _zrangebyscore(self, words: list[bytes]) -> list[bytes]:
        return []

    def _ping(self, words: list[bytes]) -> str:
        return "PONG"

    def _client(self, words: list[bytes]) -> object:
        return 7 if words[1] == b"ID" else 1

    def _waitaof(self, words: list[bytes]) -> object:
        return [1, 1]

    def _wait(self, words: list[bytes]) -> object:
        return 1
