"""The connections of a store on Redis or Valkey: connects, watches the connections, reconnects, and synchronizes the follower.

There are two connections: one for commands, pipelined, and one that waits in XREAD for the changes of all processes.  A store
that only this process writes to (``exclusive``: the embedded server) needs no XREAD: the replies to its own writes, in order,
are the changes.  With replicas that must confirm writes, ``kapi.store.confirmation`` uses two more.  When a connection is lost,
or the Sentinels name another primary, all are made again with back-off, and the follower is synchronized before writes go on.

The worker processes of one server share memory (``shared``) about the newest revisions that clients have seen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import txredisapi
from twisted.internet import defer
from twisted.internet.task import deferLater
from twisted.logger import Logger

from kapi.process.driver import Call
from kapi.process.reactor import Reactor
from kapi.process.timers import Repeated
from kapi.store.address import Address
from kapi.store.confirmation import Confirmation
from kapi.store.connection import Connection, ConnectionGone
from kapi.store.connections import CHECK_SECONDS, Connections, GivenUp
from kapi.store.entries import Skipped
from kapi.store.errors import StoreError, StoreFull, StoreLoading, StoreUnavailable
from kapi.store.failover import Sentinels, find_primary
from kapi.store.feed import HistoryCheck, StreamReader
from kapi.store.interface import Follower
from kapi.store.loading import Progress, synchronize
from kapi.store.memory_limit import FULL, is_full
from kapi.store.reading import Reading
from kapi.store.replicas import Replicas, role_at
from kapi.store.script import Keys
from kapi.store.shared_revisions import SharedRevisions
from kapi.store.suitability import Risks, check, check_rights, knows_disk, read_info
from kapi.store.writing import Replies, Writing, load_scripts

if TYPE_CHECKING:
    from kapi.store.encryption.transformer import Encryption

log = Logger()

LOADING_TIMEOUT = 300.0  # seconds that a starting kapi waits while the server loads its data
_QUIET_LOADING_SECONDS = 1.0  # shorter loading is not logged
_SILENT_SECONDS = 3.0  # at start, until the log says that there is no answer yet
_START_BACKOFF = (0.05, 1.0)  # seconds between attempts to connect at start: the first, and the maximum
#: the delay until the next attempt while the server loads its data, as a part of the time that it has been loading
_LOADING_PART = 1 / 16
RECONNECT_BACKOFF = (0.02, 5.0)  # seconds between attempts to reconnect: the first, and the maximum
_MAX_FAIL_OVER_DELAY = 0.5  # seconds; the maximum with Sentinels
_INFO_SECONDS = 5  # between looks at the server's settings and memory
_STABLE_SECONDS = 10.0  # after a connection of this duration the back-off starts again


class PrimaryConnection:
    """``min_replicas`` is how many replicas must have a write before it is acknowledged.

    ``start_timeout``: how many seconds ``start`` waits for the server.  ``exclusive``, ``shared``: see above.
    """

    def __init__(
        self,
        address: Address,
        reactor: Reactor,
        *,
        prefix: str = "kapi",
        exclusive: bool = False,
        min_replicas: int = 0,
        start_timeout: float = 0.0,
        shared: SharedRevisions | None = None,
    ) -> None:
        self.address = address
        self.exclusive = exclusive
        self._shared = shared
        self._reactor = reactor
        self._keys = Keys.under(prefix)
        self._connection: Connection | None = None  # the one for commands; None while disconnected
        self._connections = Connections(address, reactor)
        self._why = f"{address}: not connected yet"
        self._progress: Progress | None = None
        self._sentinels = Sentinels(reactor, address, self._named) if address.master else None
        self._confirmation: Confirmation | None = None
        self._replicas: Replicas | None = None
        if min_replicas:
            if address.master:
                self._replicas = Replicas(
                    reactor, lambda at: defer.Deferred.fromCoroutine(role_at(reactor, address, at))
                )
            self._confirmation = Confirmation(reactor, self._keys, min_replicas, self._distrust, self._replicas)
        self._start_timeout = start_timeout
        self._attempts = 0  # to connect, since the connection was stable
        self._stopping = False
        self._started = False
        self._pause: defer.Deferred[None] | None = None
        self._running: defer.Deferred[None] | None = None
        self._check: HistoryCheck | None = None
        self.encryption: Encryption | None = None  # None: everything is stored as plain text
        self.skipped = Skipped()
        self.call: Call = defer.execute  # runs long computations in slices
        self._risks = Risks(str(address))
        self._seconds = 0  # counts the checks once a second
        self.resets = 0  # how often the store was found to have lost data
        self._watchdog = Repeated(self._check_once_a_second, reactor, "watching the store")
        self._writing = Writing(self._keys)
        self._replies = Replies(
            str(address),
            self._keys,
            self.skipped,
            self._writing,
            self._confirmation,
            self._drop,
            self._went_back,
            shared,
            self._show_newest,
        )
        self._reading = Reading(str(address), self._keys, self.skipped, self._current, self._confirmation)

    @property
    def available(self) -> bool:
        return self._connection is not None

    @property
    def silence(self) -> float:
        return 0.0 if self._connection is None else self._connections.silence(self._connection)

    @property
    def run(self) -> bytes:
        return self._progress.run if self._progress is not None else b""

    def checks(self) -> dict[str, Callable[[], str]]:
        """Further health checks by name; each returns what is wrong, "" for nothing."""
        checks = {"store-writes": lambda: self._writing.failing}
        confirmation = self._confirmation
        if confirmation is not None:
            checks["store-replicas"] = lambda: confirmation.problem
        if self._sentinels is not None:
            checks["store-sentinels"] = self._distrust
        return checks

    # -- starting and stopping

    def launch(self) -> None:
        """Starts the store's server early, before the reactor runs.  Raises UnsuitableStore.

        Does nothing here: only an embedded server is started by kapi.
        """

    def abandon(self) -> None:
        """Undoes ``launch`` when ``start`` will not be called."""

    async def start(self, follower: Follower | None = None) -> None:
        """Connects and synchronizes the follower.

        Raises UnsuitableStore at once, StoreUnavailable when the server cannot be reached for ``start_timeout`` seconds.
        """
        if follower is not None:
            if self.encryption is not None:
                follower = self.encryption.following(follower)
            if self._shared is not None:
                follower = self._shared.following(follower)
            self._progress = Progress(follower, self.skipped, self.call)
            if self.encryption is not None:
                self._progress.prepare = self.encryption.prepare
                await self.encryption.begin(self._reactor, self._load_again)
            if self.exclusive:
                self._replies.feed = self._progress
            connection = lambda: self._connection  # noqa: E731
            self._check = HistoryCheck(self._reactor, self._keys, self._progress, connection, self._went_back)
        self._watchdog.start(CHECK_SECONDS)
        if self._sentinels is not None:
            self._sentinels.start()
        try:
            await self._first_connection()
        except BaseException:
            self._stop_watching()
            self._drop()
            raise
        self._started = True
        self._running = defer.Deferred.fromCoroutine(self._keep_connected())
        if self._check is not None:
            self._check.start()

    async def _first_connection(self) -> None:
        begin, delay, logged = self._reactor.seconds(), _START_BACKOFF[0], ""
        while True:
            slow = self._reactor.callLater(_SILENT_SECONDS, self._log_silence)
            try:
                await self._connect()
                if logged:
                    log.warn("the store is there: {where}", where=str(self.address))
                return
            except StoreUnavailable as error:
                self._drop()
                start_timeout = max(self._start_timeout, LOADING_TIMEOUT if isinstance(error, StoreLoading) else 0.0)
                waited = self._reactor.seconds() - begin
                if self._stopping or waited >= start_timeout:
                    raise
                if isinstance(error, StoreLoading):  # wait for a part of the loading time, so that little time is lost
                    delay = min(max(_START_BACKOFF[0], waited * _LOADING_PART), _START_BACKOFF[1])
                logs = not isinstance(error, StoreLoading) or waited >= _QUIET_LOADING_SECONDS
                if logs and logged != (logged := str(error)):
                    log.warn("waiting for the store: {why}", why=logged)
            finally:
                if slow.active():
                    slow.cancel()
            self._pause = deferLater(self._reactor, delay, lambda: None)
            delay = min(2 * delay, _START_BACKOFF[1])
            try:
                await self._pause
            except defer.CancelledError:
                if self._stopping:
                    raise StoreUnavailable(self._why) from None
            finally:
                self._pause = None

    def _log_silence(self) -> None:
        if not any(connection.received for connection in self._connections.open):
            log.warn("waiting for the store: {where}: no answer yet", where=str(self.address))

    async def stop(self) -> None:
        self._stopping = True
        if self._check is not None:
            self._check.stop()
        self._stop_watching()
        self._why = f"{self.address}: stopped"
        if self._pause is not None:
            self._pause.cancel()
        for connection in list(self._connections.open):
            if connection.pending and connection is self._connection:
                continue  # let it answer the pending commands
            connection.transport.loseConnection()
        if self._connection is not None and self._connection.pending:
            await deferLater(self._reactor, 0.2, lambda: None)
        self._drop()
        if self._running is not None:
            await self._running
        if self.encryption is not None:
            self.encryption.end()

    def _stop_watching(self) -> None:
        self._watchdog.stop()
        if self._sentinels is not None:
            self._sentinels.stop()
        if self._replicas is not None:
            self._replicas.stop()

    async def _keep_connected(self) -> None:
        while not self._stopping:
            if self._connection is None:
                longest = _MAX_FAIL_OVER_DELAY if self._sentinels is not None else RECONNECT_BACKOFF[1]
                delay = min(RECONNECT_BACKOFF[0] * 2 ** min(self._attempts, 20), longest)
                self._attempts += 1
                self._pause = deferLater(self._reactor, delay, lambda: None)
                try:
                    await self._pause
                except defer.CancelledError:
                    if self._stopping:
                        return
                finally:
                    self._pause = None
                try:
                    await self._connect()
                except GivenUp:
                    continue
                except StoreError as error:
                    self._drop()
                    if self._why != str(error):
                        self._why = str(error)
                        log.error("store not available: {why}", why=self._why)
                    continue
                except Exception as error:
                    self._drop()
                    self._why = f"{self.address}: {error}"
                    log.failure("connecting to the store failed")
                    continue
                log.error("store available again: {where}", where=str(self.address))  # at the level of the loss
            since = self._reactor.seconds()
            gone = await self._connections.any_lost()
            if self._reactor.seconds() - since > _STABLE_SECONDS:
                self._attempts = 0
            self._drop()
            if not self._stopping:
                self._why = f"{self.address}: connection lost: {gone}"
                log.error("store not available: {why}", why=self._why)

    def _drop(self) -> None:
        """Ends all connections; pending commands fail with StoreUnavailable."""
        self._connection = None
        self._writing.history.forget()
        self._replies.end()
        self._connections.drop()
        if self._confirmation is not None:
            self._confirmation.detach(f"{self.address}: the connection was lost")

    def _named(self, place: tuple[str, int]) -> None:
        """Called when a Sentinel names the primary; reconnects when it is another one."""
        known = self._connections.place
        if known[0] and place != known and not self._stopping:
            self._connections.place = place
            self._why = f"{self.address}: the primary is another one now: {place[0]}:{place[1]}"
            self._attempts = 0
            self._drop()
            if self._pause is not None:
                self._pause.cancel()

    def _distrust(self) -> str:
        return self._sentinels.distrust(self._connections.place) if self._sentinels is not None else ""

    async def _connect(self) -> None:
        if self.address.master:
            before = self._connections.place
            found = await find_primary(self._reactor, self.address)
            if self._connections.place == before:  # else a Sentinel has announced another one meanwhile
                self._connections.place = found
        place = self._connections.place
        connection = await self._connections.connect()
        if self._shared is not None:
            self._shared.connected()
        try:
            info = await check(connection, str(self.address), bool(self.address.master))
            await self._check_rights(connection, info)
            await self._risks.check(connection, info, new=True)
            self._note_memory(info)
            await load_scripts(connection)
            if self.exclusive and self._started:
                # the server must not execute commands of an earlier connection after the follower is synchronized
                await connection.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            reader = connection if self.exclusive else await self._connections.connect()
            confirmation, confirm = self._confirmation, None
            if confirmation is not None:
                if self._replicas is not None:
                    self._replicas.follow(place)
                fence, asker = await self._connections.connect(), await self._connections.connect()
                await confirmation.attach(connection, fence, asker, knows_disk(info))
                confirm = confirmation.revision
                if not self._started:
                    await confirmation.first(str(self.address))
            if self._progress is not None:
                await synchronize(reader, self._keys, self._progress, str(self.address), confirm)
                if confirmation is not None:
                    confirmation.continues(self._progress.revision)
        except (ConnectionGone, txredisapi.ResponseError) as error:
            raise self._replies.interpret(error) from None
        if self._stopping or place != self._connections.place:  # ``_drop`` was called while these were opened
            raise StoreUnavailable(self._why)
        if self._shared is not None and not self._shared.lives():  # the server may be that of the next supervisor
            raise StoreUnavailable(f"{self.address}: the supervisor has ended")
        self._replies.begin(connection, compares=not self.exclusive and self._progress is not None)
        self._connection = connection
        if not self.exclusive and self._progress is not None:
            confirmed = confirmation.reached if confirmation is not None else None
            StreamReader(reader, self._keys, self._progress, confirmed).start()

    async def _check_rights(self, connection: Connection, info: dict[str, str]) -> None:
        if self.exclusive:
            return  # the server is ours
        confirmed_by = "" if self._confirmation is None else "WAITAOF" if knows_disk(info) else "WAIT"
        await check_rights(connection, self._keys, str(self.address), self.address.username, confirmed_by)

    def _check_once_a_second(self) -> None:
        """Called once a second: finds connections that do not answer, and whether the server accepts writes again."""
        if self._confirmation is not None:
            self._confirmation.check()
        if self._progress is not None and self._progress.loaded:
            self._writing.history.passed(self._progress.revision)
        if self._connection is not None:
            self._writing.check(self._connection)
            self._seconds += 1
            if self._seconds % _INFO_SECONDS == 0:
                defer.Deferred.fromCoroutine(self._look(self._connection)).addErrback(
                    lambda failure: log.failure("looking at the store's server failed", failure)
                )
            if not self._connection.pending:
                self._connection.execute_command("PING").addErrback(lambda _: None)
        self._connections.end_silent()

    async def _look(self, connection: Connection) -> None:
        """Looks at the server's settings and memory, which may have changed."""
        try:
            info = read_info(await connection.execute_command("INFO"))
            await self._risks.check(connection, info)
        except (ConnectionGone, StoreUnavailable):
            return  # that is handled elsewhere
        self._note_memory(info)

    def _note_memory(self, info: dict[str, str]) -> None:
        if is_full(info):
            self._writing.refused_by_server(StoreFull(f"{self.address}: {FULL}"))

    def _load_again(self) -> None:
        """Called when stored objects can be decrypted that could not before: loads everything again."""
        if self._progress is not None and self._connection is not None:
            self._why = f"{self.address}: encrypted objects can be read again"
            log.info("{why}; loading everything again", why=self._why)
            self._progress.loaded = False
            self._drop()

    def _went_back(self, why: str) -> None:
        """Called when the store has lost data that the follower had received: loads everything again."""
        self.resets += 1
        self._why = f"{self.address}: the store went back: {why}"
        log.error("{why}; loading everything again", why=self._why)
        if self._progress is not None:
            self._progress.loaded = False
        self._drop()

    async def revision(self) -> int:
        """The newest revision.  Raises StoreUnavailable, also when the store has lost data that the follower had received."""
        progress, check = self._progress, self._check
        before = progress.revision if progress is not None and progress.loaded else None
        connections = self._shared.connections() if self._shared is not None else 0
        newest, run = await self._reading.position()
        if check is not None and before is not None:
            why = check.judge(before, newest, run)
            if why:
                if self._connection is not None:
                    self._went_back(why)
                raise StoreUnavailable(self._why)
            if self._shared is not None:
                self._shared.agree(connections)
        return newest

    async def _show_newest(self) -> None:
        """Must be called before a reply without a revision is passed on: shows the newest revision instead."""
        newest = await self.revision()
        if self._shared is not None:
            self._shared.show(newest)

    def _current(self) -> Connection:
        if self._connection is None:
            raise StoreUnavailable(self._why)
        return self._connection
