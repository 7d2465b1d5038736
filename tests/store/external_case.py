"""A Valkey server of the test, and stores on it."""

from __future__ import annotations

from typing import Any

from twisted.internet import reactor
from twisted.trial.unittest import TestCase

from kapi.store.errors import UnsuitableStore
from kapi.store.factory import external_store
from tests.store.contract import HEAD, TAIL, Recorder
from tests.store.servers import Server


class ExternalCase(TestCase):
    def server(self, *arguments: str, **settings: str) -> Server:
        server = Server(*arguments, **settings)
        self.addCleanup(server.stop)
        return server

    async def works(self, url: str, **more: Any) -> None:
        recorder = Recorder()
        store = external_store(url, reactor, **more)
        await store.start(recorder)
        try:
            await recorder.reached(await store.create("k", HEAD, TAIL))
        finally:
            await store.stop()

    async def refused(self, url: str, kind: type[Exception] = UnsuitableStore) -> str:
        store = external_store(url, reactor)
        try:
            await store.start(Recorder())
        except kind as error:
            return str(error)
        finally:
            await store.stop()
        raise AssertionError("was not refused")
