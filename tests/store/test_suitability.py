"""Which servers can be used, what their settings risk, and which of them confirm that a write is on disk."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.logger import formatEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from kapi.store.connection import Connection
from kapi.store.errors import StoreLoading, StoreUnavailable, UnsuitableStore
from kapi.store.memory_limit import has_space, is_full, makes_larger
from kapi.store.script import Keys
from kapi.store.suitability import Risks, check, check_rights, knows_disk, read_info, refusal
from tests.store.played_server import resp
from tests.store.test_connection import Transport


@pytest.mark.parametrize(
    ("version", "known"),
    [
        ("6.2.14", False), ("7.0.15", False), ("7.1.99", False), ("7.2", True), ("7.2.0", True), ("7.4.1", True),
        ("8.0.0", True), ("10.1.2", True), ("255.255.255", True),
    ],
)  # fmt: skip
def test_waiting_for_the_disk_is_known_since_7_2(version: str, known: bool) -> None:
    assert knows_disk({"aof_enabled": "1", "redis_version": version}) == known
    assert not knows_disk({"aof_enabled": "0", "redis_version": version})


def test_without_a_version_or_an_append_only_file_it_is_not_known() -> None:
    assert not knows_disk({"aof_enabled": "1"}) and not knows_disk({"redis_version": "8.0.0"})


def asked(reply: object, start: Any) -> Deferred[Any]:
    """What comes of a question to a server that replies this; a list of replies is for several."""
    connection = Connection(Clock())  # type: ignore[arg-type]  # a clock is enough
    connection.makeConnection(Transport())
    asking = Deferred.fromCoroutine(start(connection))
    for each in reply if isinstance(reply, tuple) else (reply,):
        connection.dataReceived(resp(each))
    return asking


class Servers(SynchronousTestCase):
    def test_which_are_refused_and_why(self) -> None:
        old = "Redis {} is too old; 7.0 or Valkey 7.2 is the oldest that is supported"
        cluster = "the server runs in cluster mode, which is not supported"
        for changes, sentinel, kind, why in (
            ({}, False, None, ""),
            ({"redis_version": "7.0.0"}, True, None, ""),
            ({"redis_version": "7.0", "loading": "0", "cluster_enabled": "0", "redis_mode": "standalone"}, False, None, ""),
            ({"valkey_version": "8.1.0", "server_mode": "standalone", "maxmemory_policy": "noeviction"}, False, None, ""),
            ({"redis_version": "6.2.14"}, False, UnsuitableStore, old.format("6.2.14")),
            ({"redis_version": "6.9", "valkey_version": "1.0"}, False, UnsuitableStore, old.format("1.0")),
            ({"redis_version": ""}, False, UnsuitableStore, old.format("")),
            ({"redis_mode": "sentinel", "redis_version": ""}, False, UnsuitableStore,
             "this is a Sentinel: use redis+sentinel://HOST:PORT/NAME"),
            ({"server_mode": "sentinel"}, True, UnsuitableStore, "this is a Sentinel: use redis+sentinel://HOST:PORT/NAME"),
            ({"redis_mode": "cluster"}, False, UnsuitableStore, cluster),
            ({"server_mode": "cluster", "redis_mode": "standalone"}, False, UnsuitableStore, cluster),
            ({"cluster_enabled": "1"}, False, UnsuitableStore, cluster),
            ({"loading": "1", "role": "slave"}, False, StoreLoading, "the server is loading its data"),
            ({"role": "slave"}, True, StoreUnavailable, "the server that the Sentinels name is a replica"),
            ({"role": "slave"}, False, UnsuitableStore, "the server is a read-only replica; name its primary"),
            ({"maxmemory_policy": "allkeys-lru"}, False, UnsuitableStore,
             "maxmemory-policy is allkeys-lru, so the server may throw objects away; set it to noeviction"),
        ):  # fmt: skip
            info = {"redis_version": "7.2.4", "role": "master", **changes}
            raw = "".join(f"{name}:{value}\r\n" for name, value in info.items() if value).encode()
            asking = asked(b"# Server\r\n" + raw, lambda connection, to=sentinel: check(connection, "there", to))
            if kind is None:
                self.assertEqual(self.successResultOf(asking), {name: value for name, value in info.items() if value})
            else:
                failure = self.failureResultOf(asking)
                self.assertEqual((failure.type, str(failure.value)), (kind, f"there: {why}"))

    def test_one_that_may_not_be_asked_says_why(self) -> None:
        failure = self.failureResultOf(
            asked("-NOAUTH Authentication required.", lambda connection: check(connection, "there")), UnsuitableStore
        )
        self.assertEqual(
            str(failure.value),
            "there: NOAUTH Authentication required. The URL names the user, and password-file= its password.",
        )

    def test_which_rights_and_commands_are_missing(self) -> None:
        keys = Keys.under("kapi")
        for reply, user, why in (
            ([[b"XADD", b"EVALSHA", b"XADD"], [b"PING"]], "me", "the user me may not run EVALSHA, XADD; grant +evalsha +xadd"),
            ([[b"CLIENT|ID"], []], "", "the user default may not run CLIENT|ID; grant +client|id"),
            ([[], [b"WAIT", b"HGET"]], "", "the server does not have HGET, WAIT, which kapi needs: renamed or disabled there"),
            ("-NOPERM User me has no permissions to run the 'eval' command", "me",
             "the user me may not run EVAL; grant +eval"),
            ("-ERR unknown command 'EVAL', with args beginning with:", "me",
             "the server does not have EVAL, which kapi needs: renamed or disabled there"),
            ("-NOPERM No permissions to access a key", "me", "the user me may not use kapi's keys; grant ~{kapi}:*"),
            ("-READONLY You can't write", "me", "READONLY You can't write"),
        ):  # fmt: skip
            checking = asked(reply, lambda connection, of=user: check_rights(connection, keys, "there", of))
            self.assertEqual(str(self.failureResultOf(checking, UnsuitableStore).value), f"there: {why}")
        self.successResultOf(asked([[], []], lambda connection: check_rights(connection, keys, "there", "me")))

    def test_what_a_setting_risks_is_logged_when_it_changes(self) -> None:
        lines: list[str] = []
        observer = lambda event: lines.append(formatEvent(event))  # noqa: E731
        globalLogPublisher.addObserver(observer)
        self.addCleanup(globalLogPublisher.removeObserver, observer)
        risks = Risks("there")
        off = "appendonly is no, so its end loses objects; set it to yes, and appendfsync to always"
        everysec = "appendfsync is everysec, so a crash may lose writes; set it to always"
        policy = "maxmemory-policy is volatile-ttl, so the server may throw objects away; set it to noeviction"
        denied = "-NOPERM no permissions to run 'config'"
        for aof, evicts, replies, new, wanted in (
            ("1", "", ([b"appendfsync", b"always"],), True, []),
            ("0", "", ([b"appendfsync", b"everysec"],), False, [off]),
            ("0", "", ([b"appendfsync", b"always"],), False, []),
            ("1", "", ([b"appendfsync", b"everysec"],), False, [everysec]),
            ("1", "volatile-ttl", ([b"appendfsync", b"everysec"],), False, [policy]),
            ("1", "", ([b"appendfsync", b"always"],), False,
             ["maxmemory-policy is right again", "appendonly is right again"]),
            ("1", "", ([],), False, []),
            ("1", "", (denied,), False, []),
            ("1", "", (), False, []),  # it is not asked again
            ("1", "", ([b"appendfsync", b"no"],), True, [everysec.replace("everysec", "no")]),  # but of a new connection
        ):  # fmt: skip
            info = {"aof_enabled": aof, "maxmemory_policy": evicts or "noeviction"}
            self.successResultOf(asked(replies, lambda c, info=info, new=new: risks.check(c, info, new=new)))
            self.assertEqual(lines, [f"there: {why}" for why in wanted])
            lines.clear()


@pytest.mark.parametrize(
    ("text", "kind", "why"),
    [
        ("LOADING Valkey is loading the dataset in memory", StoreLoading, "the server is loading its data"),
        ("BUSY a script runs", StoreUnavailable, "BUSY a script runs"),
        ("MASTERDOWN Link with MASTER is down", StoreUnavailable, "MASTERDOWN Link with MASTER is down"),
        ("TRYAGAIN", StoreUnavailable, "TRYAGAIN"),
        ("MISCONF disk", StoreUnavailable, "MISCONF disk"),
        ("CLUSTERDOWN", StoreUnavailable, "CLUSTERDOWN"),
        ("ERR max number of clients reached", StoreUnavailable, "ERR max number of clients reached"),
        ("DENIED it is protected.", UnsuitableStore,
         "DENIED it is protected. Give the server a password, or let it listen on the addresses of kapi only."),
        ("ERR else", UnsuitableStore, "ERR else"),
        ("BUSYGROUP else", UnsuitableStore, "BUSYGROUP else"),
    ],
)  # fmt: skip
def test_what_an_error_of_the_server_means(text: str, kind: type[Exception], why: str) -> None:
    found = refusal("there", Exception(text))
    assert (type(found), str(found)) == (kind, f"there: {why}")


def test_fields_of_what_a_server_tells() -> None:
    assert read_info(b"# Server\r\na:1\r\n\r\nb:x:y\r\nc:\r\nnone\r\n\xff:1") == {
        "a": "1", "b": "x:y", "c": "", "\ufffd": "1",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("maxmemory", "used", "not_counted", "full", "space"),
    [
        ("1000", "989", "0", False, True), ("1000", "990", "0", False, True), ("1000", "991", "0", False, False),
        ("1000", "1000", "0", False, False), ("1000", "1001", "0", True, False), ("1000", "1002", "2", False, False),
        ("1000", "1003", "2", True, False), ("0", "5000", "0", False, True), ("", "5000", "", False, True),
        ("x", "5000", "", False, True),
    ],
)  # fmt: skip
def test_when_a_store_is_full_and_when_not_any_more(
    maxmemory: str, used: str, not_counted: str, full: bool, space: bool
) -> None:
    info = {"maxmemory": maxmemory, "used_memory": used, "mem_not_counted_for_evict": not_counted}
    assert (is_full(info), has_space(info)) == (full, space)


@pytest.mark.parametrize(
    ("size", "revision", "replaced", "larger"),
    [
        (2999, 9, 3000, False), (2999, 10, 3000, True), (3000, 9, 3000, True), (2047, 9, 1, False), (2048, 9, 1, True),
        (2046, 10, 1, False), (2047, 10, 1, True), (1, 1, 0, True),
    ],
)  # fmt: skip
def test_what_an_update_makes_larger(size: int, revision: int, replaced: int, larger: bool) -> None:
    """The revision has its digits, too; small objects may grow."""
    assert makes_larger(size, revision, replaced) == larger
