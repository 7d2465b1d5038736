"""KMS v2: values as upstream stores them, seeds that are used again, rotation, and plugins that fail."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, Mock, patch

import pytest
from twisted.internet import reactor
from twisted.internet.defer import CancelledError, Deferred, ensureDeferred
from twisted.internet.task import Clock, deferLater
from twisted.trial.unittest import SynchronousTestCase, TestCase

from kapi.store.encryption import kms as kms_module
from kapi.store.encryption.configuration import load_encryption
from kapi.store.encryption.kms import Kms, Source, seal, split, tail_of, unseal
from kapi.store.encryption.kms_metrics import CACHE_MISSES, DATA_KEY_FAILURES, DATA_KEY_SECONDS
from kapi.store.encryption.providers import Undecryptable
from kapi.store.encryption.transformer import Encryption
from kapi.store.errors import NotEncryptable
from kapi.store.interface import StoredObject
from kapi.wire.plugin_messages import encode
from tests.store.kms_plugin import KmsPlugin
from tests.store.test_encryption import HEAD, KEY, TAIL, file, kms, provider, stored
from tests.waiting import eventually

pytest.importorskip("grpc")


def test_a_sealed_value_opens_under_its_own_key_only() -> None:
    source = Source.make("id", b"sealed seed", {"a.example.com": b"1"})
    data = seal(b"s" * 32, tail_of(source), b"plain", b"core/secrets/ns/name")
    found, sealed = split(data)
    assert found == source
    assert unseal(found, b"s" * 32, sealed, b"core/secrets/ns/name") == b"plain"
    for seed, key in ((b"s" * 32, b"core/secrets/ns/other"), (b"t" * 32, b"core/secrets/ns/name")):
        with pytest.raises(Undecryptable):
            unseal(found, seed, sealed, key)


@pytest.mark.parametrize(
    ("key_id", "ciphertext", "annotations"),
    [("", b"x", {}), ("i" * 1025, b"x", {}), ("i", b"", {}), ("i", b"x" * 1025, {}), ("i", b"x", {"a": b"x" * 32768})],
)
def test_what_upstream_would_not_store_is_refused(key_id: str, ciphertext: bytes, annotations: Any) -> None:
    with pytest.raises(ValueError, match="failed to validate"):
        Source.make(key_id, ciphertext, annotations)


def test_the_kinds_of_a_seed() -> None:
    with pytest.raises(ValueError, match="^unknown encryptedDEKSourceType: 2$"):
        Source.make("i", b"x", {}, 2)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\xff", "unexpected EOF"),
        (encode([(1, b"sealed"), (3, b"seed")]), "failed to validate key id"),
        (encode([(2, b"id"), (3, b"seed"), (5, 1)]), "encrypted data is empty"),
    ],
)
def test_what_is_no_stored_value(data: bytes, why: str) -> None:
    with pytest.raises(Undecryptable, match=why):
        split(data)


def test_a_value_that_was_cut() -> None:
    for kind in (0, 1):
        with pytest.raises(Undecryptable, match="the stored data was shorter than the required size"):
            unseal(Source.make("id", b"seed", {}, kind), b"s" * 32, b"short", b"key")


class KmsCase(TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.plugin = KmsPlugin(Path(directory.name) / "kms.sock")
        self.addCleanup(self.plugin.stop)
        self.recovered = 0

    def made(self, *more: Any, timeout: str = "60s") -> Encryption:
        """``timeout``: a machine with other work lets a plugin wait for seconds."""
        path = f"unix://{self.plugin.path}"
        encryption = Encryption(load_encryption(file(kms(endpoint=path, timeout=timeout), *more)))
        self.addCleanup(encryption.end)
        return encryption

    def again(self) -> None:
        self.recovered += 1

    async def begun(self, *more: Any, timeout: str = "60s") -> Encryption:
        encryption = self.made(*more, timeout=timeout)
        await encryption.begin(reactor, self.again)
        return encryption

    async def test_writes_use_one_seed_and_ask_nobody(self) -> None:
        self.plugin.start()
        encryption = await self.begun()
        self.assertEqual(encryption.problem(), "")
        values = [stored(encryption, key=f"core/secrets/ns/{number}") for number in range(20)]
        self.assertTrue(all(value.startswith(b"k8s:enc:kms:v2:one:") and b"plain" not in value for value in values))
        self.assertEqual(self.plugin.calls, {"Status": 1, "Encrypt": 1, "Decrypt": 0})
        self.assertEqual(encryption.from_storage("core/secrets/ns/3", 12, values[3]), HEAD + b"12" + TAIL)

    async def test_a_plugin_whose_socket_is_in_no_file_system(self) -> None:
        name = f"kapi-{self.plugin.path.parent.name}"
        self.plugin.address = f"unix-abstract:{name}"
        self.plugin.start()
        encryption = Encryption(load_encryption(file(kms(endpoint=f"unix:///@{name}", timeout="60s"))))
        self.addCleanup(encryption.end)
        await encryption.begin(reactor, self.again)
        self.assertEqual(encryption.problem(), "")

    async def test_a_start_asks_for_each_seed_once(self) -> None:
        self.plugin.start()
        keys, misses = sum(DATA_KEY_SECONDS.rows[()][:-1]), CACHE_MISSES.rows[()]
        first = await self.begun()
        self.assertEqual(sum(DATA_KEY_SECONDS.rows[()][:-1]), keys + 1)
        values = [StoredObject(f"{KEY}{n}", 12, stored(first, key=f"{KEY}{n}")) for n in range(20)]
        second = await self.begun()
        await second.prepare(values)
        self.assertEqual([second.object(value).data for value in values], [HEAD + b"12" + TAIL] * 20)
        self.assertEqual(self.plugin.calls["Decrypt"], 1)
        await second.prepare(values)
        self.assertEqual(self.plugin.calls["Decrypt"], 1)
        self.assertEqual(CACHE_MISSES.rows[()], misses + 1)

    async def test_another_key_id_is_another_seed_and_makes_old_values_stale(self) -> None:
        self.plugin.start()
        encryption = await self.begun()
        old = stored(encryption)
        encryption.note(KEY, old)
        self.assertFalse(encryption.stale(KEY))
        self.plugin.rotate("2")
        (plugin,) = encryption.plugins
        await plugin.probe()
        self.assertTrue(encryption.stale(KEY))
        new = stored(encryption)
        encryption.note(KEY, new)
        self.assertFalse(encryption.stale(KEY))
        self.assertIn(b"\x12\x012", new)
        for data in (old, new):
            self.assertEqual(encryption.from_storage(KEY, 12, data), HEAD + b"12" + TAIL)

    async def test_without_a_plugin_writes_fail_and_reads_recover_with_it(self) -> None:
        self.plugin.start()
        value = StoredObject(KEY, 12, stored(await self.begun()))
        self.plugin.stop()
        encryption = await self.begun(timeout="1s")
        self.assertIn(
            "failed to perform status section of the healthz check for KMS Provider one", encryption.problem()
        )
        with self.assertRaises(NotEncryptable):
            encryption.to_storage(KEY, HEAD, TAIL)
        await encryption.prepare([value])
        self.assertEqual(encryption.object(value).data, value.data)
        self.assertEqual(self.recovered, 0)
        self.plugin.start()
        await eventually(lambda: self.recovered)
        self.assertEqual(self.recovered, 1)
        self.assertEqual(encryption.object(value).data, HEAD + b"12" + TAIL)
        encryption.to_storage(KEY, HEAD, TAIL)

    async def test_a_plugin_that_hangs_holds_up_nobody(self) -> None:
        self.plugin.start()
        self.plugin.hangs.clear()
        done: Deferred[Encryption] = ensureDeferred(self.begun())
        await eventually(lambda: self.plugin.calls["Status"])
        for _ in range(10):
            await deferLater(reactor, 0.01, lambda: None)
        self.assertNoResult(done)
        self.plugin.hangs.set()
        self.assertEqual((await done).problem(), "")

    async def test_a_plugin_that_hangs_has_its_time(self) -> None:
        self.plugin.start()
        self.plugin.hangs.clear()
        encryption = await self.begun(timeout="1s")
        self.assertIn("code = DeadlineExceeded", encryption.problem())

    async def test_what_a_plugin_may_not_say(self) -> None:
        self.plugin.start()
        encryption = await self.begun()
        (plugin,) = encryption.plugins
        for attribute, value, says in (
            ("health", "sick", "got unexpected healthz status: sick"),
            ("version", "v1", "expected KMSv2 API version v2, got v1"),
            ("version", "v2beta1", "KMSv2 API version should not change"),
            ("key_id", "", "got invalid KMSv2 KeyID hash"),
        ):
            before = getattr(self.plugin, attribute)
            setattr(self.plugin, attribute, value)
            await plugin.probe()
            self.assertIn(says, encryption.problem())
            setattr(self.plugin, attribute, before)
        self.plugin.rotate("2")
        self.plugin.encrypts_with = "1"
        await plugin.probe()
        self.assertIn("failed to rotate DEK", encryption.problem())
        encryption.to_storage(KEY, HEAD, TAIL)  # with the old seed
        self.plugin.encrypts_with = ""
        await plugin.probe()
        self.assertEqual(encryption.problem(), "")

    async def test_problems_are_told_like_upstream(self) -> None:
        self.plugin.start()
        self.plugin.health, self.plugin.version = "sick", "v1"
        encryption = await self.begun()
        sick = (
            "kmsv2 Provider one is not healthy, error: "
            "[got unexpected healthz status: sick, expected KMSv2 API version v2, got v1]"
        )
        self.assertEqual(encryption.problem(), f"kms-provider-0: {sick}")

    async def test_plugins_that_fail_are_told_with_their_places(self) -> None:
        self.plugin.start()
        encryption = await self.begun(kms(name="two"), kms(name="three"))  # nobody serves the sockets of the last two
        failed = "failed to perform status section of the healthz check for KMS Provider"
        first, second = encryption.problem().removeprefix("[").removesuffix("]").split(", kms-provider-2: ")
        self.assertTrue(first.startswith(f"kms-provider-1: {failed} two, error: rpc error: code = "), first)
        self.assertTrue(second.startswith(f"{failed} three, error: rpc error: code = "), second)

    async def test_a_seed_lasts_three_minutes_without_the_plugin(self) -> None:
        self.plugin.start()
        encryption = await self.begun()
        (plugin,) = encryption.plugins
        now = reactor.seconds()  # type: ignore[attr-defined]
        for seconds, works in ((170, True), (190, False)):
            self.patch(plugin._reactor, "seconds", lambda seconds=seconds: now + seconds)
            if works:
                encryption.to_storage(KEY, HEAD, TAIL)
                continue
            with self.assertRaisesRegex(NotEncryptable, "encryptedDEKSource with keyID hash .* expired at"):
                encryption.to_storage(KEY, HEAD, TAIL)

    async def test_figures(self) -> None:
        from prometheus_client import CollectorRegistry, generate_latest

        self.plugin.start()
        encryption = await self.begun()
        stored(encryption)
        registry = CollectorRegistry()
        encryption.register(registry)
        text = generate_latest(registry).decode()
        for part in (
            'kms_operations_latency_seconds_count{grpc_status_code="OK",method_name="/v2.KeyManagementService/Status",',
            'key_id_hash_total{apiserver_id_hash="sha256:', 'dek_source_cache_size{provider_name="one"} 1.0',
            'transformation_type="to_storage"', "key_id_hash_status_last_timestamp_seconds{",
        ):  # fmt: skip
            self.assertIn(part, text)

    async def test_a_new_file_takes_over_what_the_old_one_knew(self) -> None:
        self.plugin.start()
        encryption = await self.begun()
        data = stored(encryption)
        encryption.replace(load_encryption(file(provider("aesgcm", "a"), kms(endpoint=f"unix://{self.plugin.path}"))))
        self.assertEqual(encryption.from_storage(KEY, 12, data), HEAD + b"12" + TAIL)
        self.assertTrue(stored(encryption).startswith(b"k8s:enc:aesgcm:v1:key-a:"))
        self.assertEqual(len(encryption.plugins), 1)


@pytest.fixture
def plugin(tmp_path: Path) -> Iterator[KmsPlugin]:
    made = KmsPlugin(tmp_path / "kms.sock")
    yield made
    made.stop()


def test_a_provider_connects_to_nothing_until_it_begins(plugin: KmsPlugin) -> None:
    plugin.start()
    Kms("one", str(plugin.path), 1.0)
    assert plugin.calls["Status"] == 0


class Probes(SynchronousTestCase):
    def test_a_fault_does_not_end_them(self) -> None:
        """Else the keys would neither be renewed nor the health be known any more."""
        self.patch(kms_module, "Plugin", Mock())
        clock = Clock()
        plugin = Kms("n", "/socket", 1.0)
        plugin.begin(clock, Mock(), Mock())  # type: ignore[arg-type]
        with patch.object(Kms, "probe", side_effect=OSError("no descriptors")) as probe:
            clock.pump([1.0] * 3)
        plugin.end()
        self.assertEqual(probe.call_count, 3)
        self.assertEqual(clock.getDelayedCalls(), [])
        self.flushLoggedErrors(OSError)

    def test_one_that_is_cancelled_is_no_problem_of_the_plugin(self) -> None:
        plugin = Kms("n", "/socket", 1.0)
        plugin.begin(Clock(), Mock(), Mock())  # type: ignore[arg-type]
        with patch.object(Kms, "_check", AsyncMock(side_effect=CancelledError)):
            self.failureResultOf(ensureDeferred(plugin.probe()), CancelledError)
        plugin.end()

    def test_without_random_numbers_there_is_no_seed(self) -> None:
        self.patch(kms_module, "Plugin", Mock(return_value=Mock(status=AsyncMock(return_value=("v2", "ok", "key")))))
        failures = DATA_KEY_FAILURES.rows.get((), 0)
        plugin = Kms("n", "/socket", 1.0)
        plugin.begin(Clock(), Mock(), Mock())  # type: ignore[arg-type]
        with patch.object(kms_module.os, "urandom", side_effect=[OSError("no entropy"), b"x" * 16]):
            self.successResultOf(ensureDeferred(plugin.probe()))
        plugin.end()
        self.assertEqual((plugin.problem, DATA_KEY_FAILURES.rows[()]), ("no entropy", failures + 1))
        self.flushLoggedErrors(OSError)

    def test_seeds_that_could_not_be_asked_for_are_asked_for_again(self) -> None:
        self.patch(kms_module, "Plugin", Mock())
        clock, recovered = Clock(), Mock()
        plugin = Kms("n", "/socket", 1.0)
        plugin.begin(clock, Mock(), recovered)  # type: ignore[arg-type]
        missing = Source.make("key", b"seed", {})
        plugin._miss([missing])
        with (
            patch.object(Kms, "_check", AsyncMock(return_value=[])),
            patch.object(Kms, "_fetch", AsyncMock(side_effect=[OSError("no descriptors"), 1])) as fetch,
        ):
            clock.pump([1.0] * 60)
        plugin.end()
        self.assertEqual([set(call.args[0]) for call in fetch.call_args_list], [{missing}] * 2)
        recovered.assert_called_once_with()
        self.flushLoggedErrors(OSError)
