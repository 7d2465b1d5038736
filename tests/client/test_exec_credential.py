"""Credential plugins: run once for many requests, again after expiry or a 401, and what goes wrong is said."""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import tempfile
from pathlib import Path
from typing import Any

import orjson
import pytest
from twisted.internet import reactor
from twisted.internet.defer import CancelledError, Deferred, DeferredList, gatherResults
from twisted.internet.task import deferLater
from twisted.trial.unittest import TestCase

from kapi.client.config import ConfigError
from kapi.client.exec_credential import ExecPlugin, PluginPolicy

SCRIPT = """#!/bin/sh
echo run >> "$LOG"
echo "$KUBERNETES_EXEC_INFO" > "$LOG.info"
cat <<E
{"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", "status": STATUS}
E
"""


VERSION = "client.authentication.k8s.io/v1"
_PARSE = "decoding stdout: couldn't get version/kind; json parse error: "
_STRUCT = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
_RETURNED = "exec plugin is configured to use API version VERSION, plugin returned version "
_SCHEME = 'in scheme "pkg/client/auth/exec/exec.go:64"'
_FIELD = "into Go struct field"
#: what a plugin prints, and what client-go says of it
OUTPUTS = (
    ('{"apiVersion": "VERSION", "status": {"token": "abc"}}', ""),
    ("apiVersion: VERSION\nkind: ExecCredential\nstatus: {token: abc}\n", ""),
    ("", _RETURNED + "client.authentication.k8s.io/__internal"),
    ("null", _RETURNED + "client.authentication.k8s.io/__internal"),
    ('{"kind": "ExecCredential", "status": {"token": "abc"}}', _RETURNED + "client.authentication.k8s.io/__internal"),
    ('{"apiVersion": "VERSIONbeta1", "status": {"token": "abc"}}', _RETURNED + "VERSIONbeta1"),
    ("some words", f"{_PARSE}json: cannot unmarshal string into Go value of type {_STRUCT}"),
    ("[]", f"{_PARSE}json: cannot unmarshal array into Go value of type {_STRUCT}"),
    ("{", f"{_PARSE}unexpected end of JSON input"),
    ('{"apiVersion": "x/v1"}', f'decoding stdout: no kind "ExecCredential" is registered for version "x/v1" {_SCHEME}'),
    ('{"apiVersion": "v1", "kind": "Pod"}', f'decoding stdout: no kind "Pod" is registered for version "v1" {_SCHEME}'),
    ('{"apiVersion": "VERSION"}', "exec plugin didn't return a status field"),
    ('{"apiVersion": "VERSION", "status": {}}', "exec plugin didn't return a token or cert/key pair"),
    (
        '{"apiVersion": "VERSION", "status": "x"}',
        f"decoding stdout: json: cannot unmarshal string {_FIELD} ExecCredential.status of type v1.ExecCredentialStatus",
    ),
    (
        '{"apiVersion": "VERSION", "status": {"token": 5}}',
        f"decoding stdout: json: cannot unmarshal number {_FIELD} ExecCredentialStatus.status.token of type string",
    ),
    (
        '{"apiVersion": "VERSION", "status": {"token": "t", "clientKeyData": "K"}}',
        "exec plugin returned only certificate or key, not both",
    ),
    (
        '{"apiVersion": "VERSION", "status": {"clientKeyData": "K"}}',
        "exec plugin returned only certificate or key, not both",
    ),
    (
        '{"apiVersion": "VERSION", "status": {"token": "t", "expirationTimestamp": "x"}}',
        'decoding stdout: parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006"',
    ),
)


class ExecPluginCase(TestCase):
    def plugin(self, status: str, text: str = SCRIPT, **more: Any) -> ExecPlugin:
        self.now = 1000.0
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.log = self.folder / "log"
        script = self.folder / "plugin"
        script.write_text(text.replace("STATUS", status))
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        return ExecPlugin(
            reactor, str(script), [], {"LOG": str(self.log)}, file="/k/config", now=lambda: self.now, **more
        )

    def runs(self) -> int:
        return len(self.log.read_text().splitlines())

    async def test_many_requests_wait_for_one_run(self) -> None:
        plugin = self.plugin('{"token": "abc"}')
        found = await gatherResults([Deferred.fromCoroutine(plugin.headers()) for _ in range(5)])
        self.assertEqual(found, [[(b"Authorization", b"Bearer abc")]] * 5)
        self.now += 1e9
        await plugin.headers()
        self.assertEqual(self.runs(), 1, "without an expiry it is kept")
        self.assertTrue(plugin.rejected())
        await plugin.headers()
        self.assertEqual(self.runs(), 2, "the server did not want it")

    async def test_it_runs_again_after_expiry(self) -> None:
        plugin = self.plugin('{"token": "abc", "expirationTimestamp": "1970-01-01T01:00:00Z"}')
        await plugin.headers()
        self.now = 3500.0
        await plugin.headers()
        self.assertEqual(self.runs(), 1)
        self.now = 3599.0
        await plugin.headers()
        self.assertEqual(self.runs(), 2)

    async def test_a_certificate_and_what_the_plugin_is_told(self) -> None:
        plugin = self.plugin('{"clientCertificateData": "C", "clientKeyData": "K"}', cluster={"server": "https://x"})
        self.assertEqual(await plugin.certificate(), (b"C", b"K"))
        self.assertEqual(await plugin.headers(), [])
        self.assertIn('"cluster":{"server":"https://x"}', Path(f"{self.log}.info").read_text())

    async def problem(self, plugin: ExecPlugin) -> str:
        try:
            await plugin.headers()
        except ConfigError as error:
            self.assertEqual((error.file, error.field), ("/k/config", "exec"))
            return str(error)
        raise AssertionError("nothing was raised")

    async def test_what_goes_wrong_is_said(self) -> None:
        self.assertIn("didn't return a token", await self.problem(self.plugin("{}")))
        self.assertIn("not both", await self.problem(self.plugin('{"token": "t", "clientKeyData": "K"}')))
        self.assertIn("exit code 3", await self.problem(self.plugin("", "#!/bin/sh\nexit 3\n")))
        self.assertIn("exit code -1", await self.problem(self.plugin("", "#!/bin/sh\nkill -9 $$\n")))
        self.assertIn(
            "json: cannot unmarshal string into",
            await self.problem(self.plugin("", "#!/bin/sh\necho hello\n")),
        )
        self.assertIn('registered for version "v0"', await self.problem(
            self.plugin("", "#!/bin/sh\necho '{\"kind\": \"ExecCredential\", \"apiVersion\": \"v0\"}'\n"))
        )  # fmt: skip
        self.assertIn("plugin: exec format error", await self.problem(self.plugin("", "neither script nor program")))
        text = await self.problem(self.plugin("", "#!/no/such/interpreter\n"))
        self.assertRegex(text, "exec: fork/exec /.*/plugin: no such file or directory")
        gone = ExecPlugin(reactor, "no-such-plugin", install_hint="Get it there.", file="/k/config")
        text = await self.problem(gone)
        self.assertIn("executable no-such-plugin not found", text)
        self.assertIn("Get it there.", text)

    async def test_credentials_are_decoded_as_objects_of_the_api_are(self) -> None:
        """JSON or YAML; the kind may be left out."""
        for output, why in OUTPUTS:
            plugin = self.plugin("", f"#!/bin/sh\nprintf %s {shlex.quote(output.replace('VERSION', VERSION))}\n")
            if not why:
                self.assertEqual(await plugin.headers(), [(b"Authorization", b"Bearer abc")])
                continue
            text = (await self.problem(plugin)).rpartition("getting credentials: ")[2]
            self.assertEqual(text.replace(VERSION, "VERSION"), why)

    async def test_a_plugin_gets_standard_input_where_that_is_a_terminal_that_nothing_else_reads(self) -> None:
        terminal = [True]
        self.patch(os, "isatty", lambda descriptor: descriptor == 0 and terminal[0])
        rows = (("Always", "", True), ("IfAvailable", "", True), ("IfAvailable", "used", False), ("Never", "", False))
        for mode, use, given in rows:
            await self.plugin('{"token": "abc"}', interactive=mode, stdin_use=use).headers()
            self.assertIs(orjson.loads(Path(f"{self.log}.info").read_bytes())["spec"]["interactive"], given)
        start = "exec plugin cannot support interactive mode: standard input is "
        text = await self.problem(self.plugin('{"token": "abc"}', interactive="Always", stdin_use="used by it"))
        self.assertTrue(text.endswith(f"{start}unavailable: used by it"), text)
        terminal[0] = False
        text = await self.problem(self.plugin('{"token": "abc"}', interactive="Always"))
        self.assertTrue(text.endswith(f"{start}not a terminal"), text)
        await self.plugin('{"token": "abc"}', "#!/bin/sh\ncat\n" + SCRIPT, interactive="IfAvailable").headers()

    async def test_who_leaves_because_of_anothers_answer_keeps_it_from_nobody(self) -> None:
        for text in (SCRIPT, "#!/bin/sh\nexit 3\n"):
            plugin = self.plugin('{"token": "abc"}', text)
            waiting = [Deferred.fromCoroutine(plugin.headers()) for _ in range(3)]
            waiting[0].addBoth(lambda _, second: second.cancel(), waiting[1])
            results = await DeferredList(waiting, consumeErrors=True)
            self.assertIsNone(results[0][1])
            self.assertIsInstance(results[1][1].value, CancelledError)
            found = results[2][1]
            if text is SCRIPT:
                self.assertEqual(found, [(b"Authorization", b"Bearer abc")])
            else:
                self.assertIsInstance(found.value, ConfigError)

    async def test_who_waits_no_longer_ends_the_run(self) -> None:
        plugin = self.plugin("", '#!/bin/sh\necho $$ > "$LOG"\nexec sleep 60\n')
        waiting = Deferred.fromCoroutine(plugin.headers())
        while not self.log.exists() or not self.log.read_text():
            await deferLater(reactor, 0.01)  # type: ignore[arg-type]
        waiting.cancel()
        with self.assertRaises(Exception):  # noqa: B017 - CancelledError
            await waiting
        process = Path(f"/proc/{self.log.read_text().strip()}")
        while process.exists():
            await deferLater(reactor, 0.01)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("command", "path", "allowed"),
    [
        ("sh", "/bin/sh", ("sh",)),
        ("/bin/sh", "/bin/sh", ("sh",)),
        ("sh", "/bin/sh", ("/bin/sh",)),
        ("/x/sh", "/x/sh", ("other", "/x/sh")),
    ],
)
def test_a_plugin_may_run_when_an_entry_is_it_or_leads_to_it(command: str, path: str, allowed: tuple[str, ...]) -> None:
    policy = PluginPolicy("Allowlist", allowed)
    assert policy.problem() == ""
    assert policy.refusal(command, path, "/bin") == ""


def test_other_plugins_may_not_run() -> None:
    refusal = PluginPolicy("Allowlist", ("sh",)).refusal("/tmp/sh", "/tmp/sh", "/bin")
    assert refusal == 'plugin path "/tmp/sh" is not permitted by the credential plugin allowlist'
