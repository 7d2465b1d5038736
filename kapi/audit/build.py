"""Builds auditing from the flags (upstream: apiserver ``server/options/audit.go``), with the webhook back end.

The webhook back end posts EventLists to a server named in a kubeconfig (upstream: ``plugin/pkg/audit/webhook``).
"""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from twisted.internet.defer import CancelledError
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from kapi.audit.log_file import LogFile, LogWriter
from kapi.audit.metrics import Meter
from kapi.audit.policy import Policy, load_policy
from kapi.audit.record import Record, event_list
from kapi.audit.sinks import Backend, Batching, Blocking, Sink, Truncating, UnionSink
from kapi.client.errors import from_response
from kapi.client.kubeconfig import load_kubeconfig
from kapi.client.retry import Unavailable, with_backoff
from kapi.process.reactor import Reactor
from kapi.wire.egress import CONTROL_PLANE, DIRECT, Egress
from kapi.wire.network_errors import describe_request

if TYPE_CHECKING:
    from kapi.client.endpoint_client import EndpointClient

log = Logger()
Value = TypeVar("Value")
MAX_OPEN_SECONDS = 10.0  # to open the log file; without a limit a start could hang without an error


class Webhook:
    """Posts events, and retries after every error; ``initial_backoff`` is the seconds before the first retry."""

    name = "webhook"
    immediate = False

    def __init__(self, client: EndpointClient, reactor: IReactorTime, *, initial_backoff: float = 10.0) -> None:
        self._client = client
        self._reactor = reactor
        self._backoff = initial_backoff

    async def send(self, records: Sequence[Record]) -> None:
        """Posts the records.  Raises Unavailable when five attempts failed."""
        body = event_list(records)
        await with_backoff(self._reactor, lambda: self._post(body), delay=self._backoff)

    async def _post(self, body: bytes) -> None:
        try:
            answer = await self._client.post(body)
        except CancelledError:
            raise
        except Exception as error:
            raise Unavailable(describe_request(error, "POST", self._client.url)) from error
        if not 200 <= answer.code <= 206:
            raise Unavailable(str(from_response(answer, "POST")))

    def close(self) -> None:
        self._client.close().addErrback(lambda _: None)


class Options(Protocol):
    """The audit flags, under their names with underscores; missing flags have upstream's defaults."""

    audit_policy_file: str
    audit_log_path: str
    audit_webhook_config_file: str


class Auditor:
    """The policy, and the sink for its events.  ``clock`` returns unix seconds."""

    def __init__(self, policy: Policy, sink: UnionSink, meter: Meter, clock: Callable[[], float] = time.time) -> None:
        self.policy = policy
        self.sink = sink
        self.meter = meter
        self.clock = clock

    async def stop(self) -> None:
        """Sends the waiting events, and closes the back ends."""
        await self.sink.stop()


def build(options: Options, reactor: Reactor, meter: Meter, egress: Egress = DIRECT) -> Auditor | None:
    """The auditor of ``options``, which name a policy file; None without a back end.

    Raises PolicyError, kapi.client.config_error.ConfigError, OSError.
    """
    policy, warnings = load_policy(options.audit_policy_file)
    for text in warnings:
        log.warn("audit policy: {text}", text=text)
    sinks: list[Sink] = []
    if options.audit_log_path:
        sinks.append(_wrap("log", _log_file(options, reactor), options, reactor, meter))
    if options.audit_webhook_config_file:
        from kapi.client.endpoint_client import EndpointClient  # imported only when it is used

        endpoint = load_kubeconfig(options.audit_webhook_config_file)
        client = EndpointClient(reactor, endpoint, proxy=egress.proxy(CONTROL_PLANE))
        webhook = Webhook(client, reactor, initial_backoff=_option(options, "audit_webhook_initial_backoff", 10.0))
        sinks.append(_wrap("webhook", webhook, options, reactor, meter))
    return Auditor(policy, UnionSink(sinks, meter), meter) if sinks else None


def _log_file(options: Options, reactor: Reactor) -> LogWriter:
    tidying = threading.Lock()

    def tidy(work: Callable[[], None]) -> None:
        try:
            work()
        except Exception:
            failure = Failure()
            reactor.callFromThread(lambda: log.failure("tidying old audit logs failed", failure))
        finally:
            tidying.release()

    def in_thread(work: Callable[[], None]) -> None:
        """Runs one call at a time, in a daemon thread: the disk may hang, and the server must still be able to end."""
        if not tidying.acquire(blocking=False):
            return
        try:
            threading.Thread(target=tidy, args=(work,), name="audit log tidying", daemon=True).start()
        except RuntimeError as error:  # no more threads: the limit of processes also counts threads
            tidying.release()
            log.warn("old audit logs stay until the next rotation: {error}", error=str(error))

    def open_file() -> LogFile:
        return LogFile(
            options.audit_log_path,
            legacy=_option(options, "audit_log_format", "json") == "legacy",
            max_size=_option(options, "audit_log_maxsize", 100),
            max_age=_option(options, "audit_log_maxage", 366),
            max_backups=_option(options, "audit_log_maxbackup", 100),
            compress=_option(options, "audit_log_compress", False),
            in_thread=in_thread,
        )

    return LogWriter(_in_time(open_file, options.audit_log_path), reactor)


def _in_time(work: Callable[[], Value], path: str) -> Value:
    """Returns or raises the result of ``work``; raises OSError when a hanging mount delays it for too long."""
    found: list[Value] = []
    errors: list[Exception] = []

    def run() -> None:
        try:
            found.append(work())
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="audit log opening", daemon=True)
    thread.start()
    thread.join(MAX_OPEN_SECONDS)
    if errors:
        raise errors[0]
    if not found:
        raise OSError(errno.ETIMEDOUT, f"not opened within {MAX_OPEN_SECONDS:.0f} seconds", path)
    return found[0]


def _wrap(name: str, backend: Backend, options: Options, reactor: Reactor, meter: Meter) -> Sink:
    log_file = name == "log"
    mode = _option(options, f"audit_{name}_mode", "blocking" if log_file else "batch")
    truncate = _option(options, f"audit_{name}_truncate_enabled", False)
    sink: Sink
    if mode == "batch":
        throttled = _option(options, f"audit_{name}_batch_throttle_enable", not log_file)
        max_bytes = _option(options, f"audit_{name}_truncate_max_batch_size", 10 * 1024 * 1024)
        sink = Batching(
            backend,
            meter,
            reactor,
            buffer_size=_option(options, f"audit_{name}_batch_buffer_size", 10_000),
            max_size=_option(options, f"audit_{name}_batch_max_size", 1 if log_file else 400),
            max_wait=_option(options, f"audit_{name}_batch_max_wait", 0.0 if log_file else 30.0),
            qps=_option(options, f"audit_{name}_batch_throttle_qps", 10.0) if throttled else 0.0,
            burst=_option(options, f"audit_{name}_batch_throttle_burst", 15),
            max_bytes=max_bytes if truncate else 0,
        )
    else:
        sink = Blocking(backend, meter, strict=mode == "blocking-strict")
    if truncate:
        sink = Truncating(sink, meter, _option(options, f"audit_{name}_truncate_max_event_size", 100 * 1024))
    return sink


def _option(options: Options, name: str, default: Value) -> Value:
    value: Value | None = getattr(options, name, None)
    return default if value is None else value
