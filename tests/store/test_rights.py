"""Rights that the user of a store lacks, and commands that its server does not have: one line at the start that names them."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import Any

import hiredis
from twisted.internet import reactor
from twisted.trial.unittest import TestCase

import kapi.store
from kapi.store.errors import StoreUnavailable, UnsuitableStore
from kapi.store.factory import external_store
from kapi.store.suitability import CHECK
from tests.store.contract import HEAD, TAIL, StoreContract
from tests.store.external_case import ExternalCase
from tests.store.servers import Server
from tests.waiting import eventually

#: of the embedded server, of Sentinels, of ``kapi restore`` and for logging in; and those without which only a warning is logged
_OTHERS = {"RENAME", "SHUTDOWN", "CLIENT|KILL", "SENTINEL", "AUTH", "SELECT", "CLIENT|UNBLOCK", "ROLE", "CONFIG|GET"}
#: only where replicas confirm writes
CONFIRMING = {"WAIT", "WAITAOF", "CLIENT|ID"}
_WITH_SUBCOMMANDS = ("SCRIPT", "XINFO", "CLIENT", "CONFIG")


def checked() -> set[str]:
    """The commands that are checked at the start."""
    return named(re.findall(r"\{'([A-Z]+)'(?:, '([A-Z]+)')?", CHECK.decode())) | {"EVAL"}


def named(found: list[tuple[str, str]]) -> set[str]:
    return {f"{name}|{second}" if name in _WITH_SUBCOMMANDS else name for name, second in found}


def grants(commands: set[str]) -> str:
    return " ".join(f"+{name.lower()}" for name in sorted(commands))


MINIMAL = f"kapi on >pw ~{{kapi}}:* {grants(checked() - CONFIRMING)}"


def test_every_command_in_the_code_is_checked() -> None:
    used: set[str] = set()
    for path in Path(kapi.store.__file__).parent.glob("*.py"):
        text = path.read_text()
        if path.name == "rights.py":
            continue
        used |= named(re.findall(r"redis\.call\('([A-Z]+)'(?:, '([A-Z]+)')?", text))
        used |= named(re.findall(r"(?:execute_command|ask|send)\(\s*\(?b?\"([A-Z]+)\"(?:, b?\"([A-Z]+)\")?", text))
        used |= set(re.findall(r"\(\"(WAIT(?:AOF)?)\", ", text))
    assert used - _OTHERS == checked()


class MinimalRights(StoreContract, TestCase):
    """The whole contract, by a user who may run the checked commands and no others."""

    async def make_store(self) -> Any:
        if not hasattr(self, "server"):
            self.server = Server(user=MINIMAL)
        return external_store(f"redis://kapi:pw@127.0.0.1:{self.server.port}", reactor)

    async def clean_up(self) -> None:
        self.server.stop()


class Rights(ExternalCase):
    def command(self, server: Server, *words: str) -> Any:
        reader = hiredis.Reader()
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
            connection.sendall(hiredis.pack_command(words))
            while (reply := reader.gets()) is False:
                reader.feed(connection.recv(65536))
        assert not isinstance(reply, Exception), reply
        return reply

    async def test_each_right_that_is_missing_is_named(self) -> None:
        server = self.server(user=MINIMAL)
        url = f"redis://kapi:pw@127.0.0.1:{server.port}"
        for name in sorted(checked() - CONFIRMING):
            self.command(server, "ACL", "SETUSER", "kapi", f"-{name.lower()}")
            text = await self.refused(url)
            self.assertIn(name.lower().partition("|")[0], text.lower())
            self.assertEqual(text.count("\n"), 0)
            self.command(server, "ACL", "SETUSER", "kapi", f"+{name.lower()}")
        await self.works(url)

    async def test_no_right_to_write_to_a_store_with_data(self) -> None:
        server = self.server(user="kapi on >pw ~{kapi}:* +@all")
        url = f"redis://kapi:pw@127.0.0.1:{server.port}"
        await self.works(url)
        self.command(server, "ACL", "SETUSER", "kapi", "-@write")
        text = await self.refused(url)
        self.assertIn("the user kapi may not run DEL, HDEL, HSET, SET, XADD, XTRIM, ZADD, ZREM; grant +del +hdel", text)

    async def test_keys_of_others(self) -> None:
        server = self.server(user="kapi on >pw ~other:* +@all")
        text = await self.refused(f"redis://kapi:pw@127.0.0.1:{server.port}")
        self.assertIn("the user kapi may not use kapi's keys; grant ~{kapi}:*", text)

    async def test_keys_that_may_only_be_read(self) -> None:
        server = self.server(user="kapi on >pw %R~{kapi}:* +@all")
        self.assertIn("may not", await self.refused(f"redis://kapi:pw@127.0.0.1:{server.port}"))

    async def test_renamed_commands(self) -> None:
        for name in ("XADD", "XREAD", "EVALSHA", "EVAL", "HSCAN"):
            server = self.server("--rename-command", name, f"KEPT-{name}")
            self.assertIn(f"the server does not have {name}, which kapi needs", await self.refused(server.url))

    async def test_confirmations_need_more(self) -> None:
        rights = grants(checked() - CONFIRMING)
        server = self.server(user=f"kapi on >pw ~{{kapi}}:* {rights}", appendonly="yes", appendfsync="always")
        url = f"redis://kapi:pw@127.0.0.1:{server.port}"
        await self.works(url)
        store = external_store(url, reactor, min_replicas=1)
        with self.assertRaisesRegex(UnsuitableStore, r"may not run (CLIENT\|ID, )?WAIT(, WAITAOF)?; grant \+"):
            await store.start()
        await store.stop()

    async def test_a_right_that_is_given_later_ends_the_outage(self) -> None:
        server = self.server(user=MINIMAL)
        store = external_store(f"redis://kapi:pw@127.0.0.1:{server.port}", reactor)
        await store.start()
        self.addCleanup(store.stop)
        self.command(server, "ACL", "SETUSER", "kapi", "-xadd")
        with self.assertRaises(StoreUnavailable):
            await store.create("k", HEAD, TAIL)
        await eventually(lambda: not store.available and "may not run XADD" in store._why)
        self.command(server, "ACL", "SETUSER", "kapi", "+xadd")
        await eventually(lambda: store.available)
        await store.create("k", HEAD, TAIL)
