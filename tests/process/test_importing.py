"""Libraries that are imported by the first who needs them: nobody else waits for it."""

from __future__ import annotations

import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from cryptography.hazmat.primitives.asymmetric import ec
from twisted.internet import reactor
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import deferLater
from twisted.trial.unittest import SynchronousTestCase, TestCase

from kapi.admission.webhook import client as webhook_client
from kapi.admission.webhook.client import CallError, WebhookClient
from kapi.admission.webhook.resolver import ServiceResolver
from kapi.authentication.service_account import issuer as issuers
from kapi.authentication.service_account.issuer import TokenIssuer
from kapi.codecs.negotiation import MediaType
from kapi.endpoints import encoding
from kapi.machinery.importing import import_in_thread, missing
from tests.process.turns import Turns
from tests.waiting import MAX_WAIT

begun, may_end = threading.Event(), threading.Event()
LIBRARY = f"""
import threading
from {__name__} import begun, may_end
begun.set()
THREAD = threading.get_ident()
assert may_end.wait(120)
"""


def library(test: TestCase | SynchronousTestCase, name: str, text: str = LIBRARY) -> str:
    """A module that takes as long as the test wants, and is found while the test runs."""
    directory = tempfile.mkdtemp()
    test.addCleanup(shutil.rmtree, directory)
    (Path(directory) / f"{name}.py").write_text(text)
    test.patch(sys, "path", [directory, *sys.path])
    begun.clear()
    may_end.clear()
    test.addCleanup(may_end.set)
    return name


class InSlices(Turns):
    def use(self, name: str) -> int:
        import_in_thread(name)
        thread: int = __import__(name).THREAD
        return thread

    def until_over(self, done: object) -> None:
        limit = time.monotonic() + MAX_WAIT
        while not done.called and time.monotonic() < limit:  # type: ignore[attr-defined]
            self.turn()

    def test_others_work_while_it_is_imported(self) -> None:
        name = library(self, "kapi_test_slow")
        done = self.slices.call(self.use, name)
        self.assertTrue(begun.wait(120))
        other = self.slices.call(self.work, "b", 3)
        for _ in range(20):
            self.turn()
        self.assertEqual(self.successResultOf(other), "b")
        self.assertNoResult(done)
        may_end.set()
        self.until_over(done)
        self.assertNotEqual(self.successResultOf(done), threading.get_ident())

    def test_a_second_user_waits_like_the_first(self) -> None:
        name = library(self, "kapi_test_shared")
        done = [self.slices.call(self.use, name) for _ in range(2)]
        self.assertTrue(begun.wait(120))
        for _ in range(20):
            self.turn()
        for one in done:
            self.assertNoResult(one)
        may_end.set()
        for one in done:
            self.until_over(one)
            self.successResultOf(one)
        self.assertFalse(missing(name))

    def test_others_work_while_what_signs_tokens_and_writes_yaml_is_imported(self) -> None:
        issuer = TokenIssuer("https://issuer", ec.generate_private_key(ec.SECP256R1()))
        uses: list[tuple[Any, str, Callable[[], object]]] = [
            (issuers, "_LIBRARY", lambda: issuer.sign(b"{}")),
            (encoding, "_YAML_WRITING", lambda: encoding.encode({"a": 1}, MediaType(yaml=True))),
        ]
        for module, constant, use in uses:
            with self.subTest(constant):
                self.patch(module, constant, library(self, f"kapi_test{constant.lower()}"))
                done = self.slices.call(use)
                self.assertTrue(begun.wait(120))
                self.turn()
                self.assertNoResult(done)
                may_end.set()
                self.until_over(done)
                self.assertTrue(self.successResultOf(done))

    def test_who_gives_up_does_not_wait(self) -> None:
        done = self.slices.call(self.use, library(self, "kapi_test_given_up"))
        self.assertTrue(begun.wait(120))
        done.cancel()
        self.turn()
        self.failureResultOf(done, CancelledError)

    def test_what_is_wrong_with_it_is_its_users_error(self) -> None:
        done = self.slices.call(self.use, library(self, "kapi_test_wrong", "raise ImportError('broken')"))
        self.until_over(done)
        self.assertEqual(str(self.failureResultOf(done, ImportError).value), "broken")

    def test_without_a_thread_it_is_left_to_the_user(self) -> None:
        name = library(self, "kapi_test_no_thread")
        may_end.set()
        with patch("threading.Thread.start", side_effect=RuntimeError("can't start new thread")):
            done = self.slices.call(self.use, name)
            self.until_over(done)
        self.assertEqual(self.successResultOf(done), threading.get_ident())

    def test_outside_of_slices_it_is_left_to_the_user(self) -> None:
        name = library(self, "kapi_test_at_once")
        import_in_thread(name)
        self.assertFalse(begun.is_set())
        may_end.set()
        self.assertEqual(self.use(name), threading.get_ident())


class Webhooks(TestCase):
    async def test_the_first_call_imports_on_another_thread_than_the_reactors(self) -> None:
        name = library(self, "kapi_test_webhooks")
        self.patch(webhook_client, "_LIBRARIES", (name,))
        client = WebhookClient(reactor, ServiceResolver(None))  # type: ignore[arg-type]
        done = Deferred.fromCoroutine(client.post({"url": "https://127.0.0.1:1/x"}, {}, 5.0))
        while not begun.is_set():
            await deferLater(reactor, 0.001)  # type: ignore[arg-type]
        self.assertNoResult(done)
        may_end.set()
        with self.assertRaises(CallError):
            await done
        self.assertNotEqual(__import__(name).THREAD, threading.get_ident())
        await client.close()
