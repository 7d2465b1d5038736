"""Credentials from a plugin, a program that prints an ExecCredential (upstream: client-go ``plugin/pkg/client/auth/exec``).

The program runs as a child process.  Its credential is used until it expires or the server answers 401.  Requests that come
while it runs wait for its result.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import orjson
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ProcessDone
from twisted.internet.protocol import ProcessProtocol
from twisted.python.failure import Failure

from kapi.client.config_error import ConfigError, NoConnection
from kapi.client.credentials import ClientCertificate, Header
from kapi.client.typed import string, struct
from kapi.codecs import json_reading
from kapi.codecs.json_reading import kind_of
from kapi.codecs.reading import as_object, type_meta
from kapi.machinery.time import seconds_of
from kapi.machinery.time import time as api_time
from kapi.machinery.tree import Object, Tree
from kapi.process.reactor import Reactor

_GROUP = "client.authentication.k8s.io"
VERSIONS = (f"{_GROUP}/v1", f"{_GROUP}/v1beta1")
MAX_OUTPUT_BYTES = 1024 * 1024
MAX_RUN_SECONDS = 120.0
_TEXTS = ("token", "clientCertificateData", "clientKeyData")
_SCHEME = "pkg/client/auth/exec/exec.go:64"
_NOT_FOUND = (
    "\n\nIt looks like you are trying to use a client-go credential plugin that is not installed.\n\n"
    "To learn more about this feature, consult the documentation available at:\n"
    "      https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins"
)
_EARLY_SECONDS = 10.0  # a credential is not used in the last seconds before it expires


class PluginPolicy(NamedTuple):
    """Which plugins may run.  ``kind`` is "", AllowAll, DenyAll or Allowlist, which has ``allowed``: names, or paths."""

    kind: str
    allowed: tuple[str, ...] | None = None

    def problem(self) -> str:
        """What is wrong with the policy itself."""
        kind, allowed = self
        if kind not in ("", "AllowAll", "DenyAll", "Allowlist"):
            return f'unknown plugin policy: "{kind}"'
        if kind != "Allowlist":
            text = f'misconfigured credential plugin allowlist: plugin policy is "{kind}" but allowlist is non-nil'
            return "" if allowed is None else text
        if not allowed:
            what = "unspecified" if allowed is None else 'empty; use "DenyAll" policy instead'
            return f'credential plugin policy set to "Allowlist", but allowlist is {what}'
        for number, entry in enumerate(allowed, 1):
            if not entry:
                return f"misconfigured credential plugin allowlist: empty allowlist entry #{number}"
            if entry != (cleaned := os.path.normpath(entry)):
                return f'non-normalized file path: "{entry}" vs "{cleaned}"'
        return ""

    def refusal(self, command: str, path: str | None, search: str) -> str:
        """Why the plugin may not run; "" when it may.  ``path`` is where ``command`` was found in the directories ``search``."""
        if self.kind == "DenyAll":
            return f'plugin "{command}" not allowed: policy set to "DenyAll"'
        if self.kind != "Allowlist":
            return ""
        allowed = self.allowed or ()
        if command in allowed:
            return ""
        if path is None:
            why = f'exec: "{command}": executable file not found in $PATH'
            return f'plugin path "{command}" cannot be resolved for credential plugin allowlist check: {why}'
        if path in (*allowed, *(_executable(one, search) for one in allowed)):
            return ""
        return f'plugin path "{path}" is not permitted by the credential plugin allowlist'


class ExecPlugin:
    """An Authenticator.  ``cluster`` is given to the plugin when its configuration asks for it (``provideClusterInfo``).

    ``interactive`` is Never, IfAvailable or Always; ``stdin_use`` says what else reads standard input.
    """

    def __init__(
        self,
        reactor: Reactor,
        command: str,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        *,
        api_version: str = VERSIONS[0],
        cluster: Object | None = None,
        install_hint: str = "",
        file: str = "",
        policy: PluginPolicy | None = None,
        interactive: str = "Never",
        stdin_use: str = "",
        now: Callable[[], float] = time.time,
    ) -> None:
        if api_version not in VERSIONS:
            raise ConfigError(f'exec plugin: invalid apiVersion "{api_version}"', file=file, field="exec.apiVersion")
        self._reactor, self._now = reactor, now
        self._command, self._arguments, self._environment = command, list(arguments), dict(environment or {})
        self._api_version, self._cluster, self._hint, self._file = api_version, cluster, install_hint, file
        self._policy, self._mode, self._stdin_use = policy, interactive, stdin_use
        self._headers: list[Header] = []
        self._certificate: ClientCertificate | None = None
        self._until: float | None = None  # Unix seconds; None: there is no credential yet
        self._running: Deferred[None] | None = None
        self._waiting: list[Deferred[None]] = []

    async def headers(self) -> list[Header]:
        await self._refresh()
        return self._headers

    async def certificate(self) -> ClientCertificate | None:
        await self._refresh()
        return self._certificate

    def rejected(self) -> bool:
        self._until = None
        return True

    async def _refresh(self) -> None:
        if self._until is not None and self._now() < self._until - _EARLY_SECONDS:
            return
        waiting: Deferred[None] = Deferred(self._waiting_cancelled)
        self._waiting.append(waiting)
        if self._running is None:
            self._running = Deferred.fromCoroutine(self._run())
            self._running.addBoth(self._done)
        await waiting

    def _waiting_cancelled(self, waiting: Deferred[None]) -> None:
        if waiting not in self._waiting:
            return  # the run has ended; this request was cancelled because of another request's answer
        self._waiting.remove(waiting)
        if not self._waiting and self._running is not None:
            self._running.cancel()

    def _done(self, result: object) -> None:
        waiting, self._waiting, self._running = self._waiting, [], None
        for one in waiting:
            if one.called:
                continue
            if isinstance(result, Failure):
                one.errback(Failure(result.value))
            else:
                one.callback(None)

    def _problem(self, why: str) -> NoConnection:
        return NoConnection(f"getting credentials: {why}", file=self._file, field="exec")

    def _interactive(self) -> bool:
        """Whether the plugin gets standard input.  Raises ConfigError where it needs that and cannot have it."""
        terminal = os.isatty(0)
        if self._mode == "Always" and (not terminal or self._stdin_use):
            why = f"unavailable: {self._stdin_use}" if terminal else "not a terminal"
            raise self._problem(f"exec plugin cannot support interactive mode: standard input is {why}")
        return self._mode != "Never" and terminal and not self._stdin_use

    async def _run(self) -> None:
        interactive = self._interactive()
        spec: Object = {"interactive": interactive}
        if self._cluster is not None:
            spec["cluster"] = self._cluster
        info = {"kind": "ExecCredential", "apiVersion": self._api_version, "spec": spec}
        environment = {**os.environ, **self._environment, "KUBERNETES_EXEC_INFO": orjson.dumps(info).decode()}
        path = _executable(self._command, environment.get("PATH", ""))
        if self._policy is not None and (why := self._policy.refusal(self._command, path, os.environ.get("PATH", ""))):
            raise self._problem(why)
        if path is None and os.sep not in self._command:
            hint = f"\n\n{self._hint}" if self._hint else ""
            raise self._problem(f"exec: executable {self._command} not found{_NOT_FOUND}{hint}")
        if path is None:
            why = "permission denied" if os.path.exists(self._command) else "no such file or directory"
            raise self._problem(f"exec: fork/exec {self._command}: {why}")
        run = _Run()
        try:
            process = self._reactor.spawnProcess(
                run,
                path,
                [self._command, *self._arguments],
                env=environment,
                childFDs={0: 0 if interactive else "w", 1: "r", 2: "r"},
            )
        except OSError as error:
            raise self._problem(f"exec: fork/exec {path}: {(error.strerror or str(error)).lower()}") from None
        if not interactive:
            process.closeStdin()
        timer = self._reactor.callLater(MAX_RUN_SECONDS, run.give_up)
        try:
            output = await run.done
        except CancelledError:
            raise
        except _Failed as failed:
            raise self._problem(f"exec: executable {self._command} failed with {failed}") from None
        finally:
            if timer.active():
                timer.cancel()
            if not run.ended:
                process.loseConnection()  # the plugin's child processes may keep the pipes open
                process.signalProcess("KILL")
        self._take(output)

    def _take(self, output: bytes) -> None:
        try:
            status = _status(output, self._api_version)
            token, certificate, key = (status.get(name) or "" for name in _TEXTS)
            if not token and not certificate and not key:
                raise ValueError("exec plugin didn't return a token or cert/key pair")
            if bool(certificate) != bool(key):
                raise ValueError("exec plugin returned only certificate or key, not both")
        except ValueError as error:
            raise self._problem(str(error)) from None
        expiry = status.get("expirationTimestamp")
        self._until = seconds_of(expiry) if expiry else float("inf")
        self._headers = [(b"Authorization", b"Bearer " + token.encode())] if token else []
        self._certificate = ClientCertificate(certificate.encode(), key.encode()) if certificate else None


def _status(output: bytes, api_version: str) -> Object:
    """The status of an ExecCredential in JSON or YAML, with values of the right types.

    Raises ValueError with client-go's text.
    """
    try:
        tree = as_object(_read(output))
        version, kind = type_meta(tree)
        version, kind = version or f"{_GROUP}/__internal", kind or "ExecCredential"
        if kind != "ExecCredential" or version not in (*VERSIONS, f"{_GROUP}/__internal"):
            raise ValueError(f'no kind "{kind}" is registered for version "{version}" in scheme "{_SCHEME}"')
        status: Object | None = tree.get("status")
        if status is not None:
            fields = dict.fromkeys(_TEXTS, string)
            struct(f"{version.rpartition('/')[2]}.ExecCredentialStatus", **fields)(status, "ExecCredential.status")
        if status and (expiry := status.get("expirationTimestamp")) is not None:
            if not isinstance(expiry, str):
                raise ValueError(f"json: cannot unmarshal {kind_of(expiry)} into Go value of type string")
            status["expirationTimestamp"] = api_time(expiry)
    except ValueError as error:
        raise ValueError(f"decoding stdout: {error}") from None
    if version != api_version:
        raise ValueError(
            f"exec plugin is configured to use API version {api_version}, plugin returned version {version}"
        )
    if status is None:
        raise ValueError("exec plugin didn't return a status field")
    return status


def _read(output: bytes) -> Tree:
    if output.lstrip()[:1] == b"{":
        try:
            return json_reading.loads(output)
        except ValueError as error:
            raise ValueError(f"couldn't get version/kind; json parse error: {error}") from None
    from kapi.codecs import yaml_reading

    return yaml_reading.loads(output)[0]


class _Failed(Exception):
    pass


class _Run(ProcessProtocol):
    """Collects the plugin's stdout; its stderr goes to the stderr of this process."""

    def __init__(self) -> None:
        self.done: Deferred[bytes] = Deferred()
        self.ended = False
        self._output: list[bytes] = []
        self._size = 0

    def outReceived(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > MAX_OUTPUT_BYTES:
            self._finish(_Failed(f"more than {MAX_OUTPUT_BYTES} bytes of output"))
        else:
            self._output.append(data)

    def errReceived(self, data: bytes) -> None:
        os.write(2, data)

    def give_up(self) -> None:
        self._finish(_Failed(f"no answer after {MAX_RUN_SECONDS:.0f} seconds"))

    def processEnded(self, reason: Failure) -> None:
        self.ended = True
        if reason.check(ProcessDone):
            self._finish(None)
        else:
            code = getattr(reason.value, "exitCode", None)
            self._finish(_Failed(f"exit code {-1 if code is None else code}"))

    def _finish(self, problem: _Failed | None) -> None:
        if self.done.called:
            return
        if problem is None:
            self.done.callback(b"".join(self._output))
        else:
            self.done.errback(problem)


def _executable(command: str, path: str) -> str | None:
    import shutil

    return shutil.which(command, path=path)
