"""Probes, lifecycle hooks and their handlers (upstream: ``core/validation`` validateProbe, validateLifecycle)."""

from __future__ import annotations

from kapi.machinery import field
from kapi.machinery.each import elements
from kapi.machinery.field import Path
from kapi.machinery.tree import Object
from kapi.resources.shared.names import is_http_header_name, is_port_name, is_port_number
from kapi.resources.shared.options import PodOptions
from kapi.resources.shared.rules import (
    Errors,
    Rule,
    at,
    enum,
    minimum,
    need,
    nonnegative,
    not_supported,
    report,
    required,
    struct,
)

_NUMBERED = tuple(f"SIGRTMIN+{n}" for n in range(1, 16)) + tuple(f"SIGRTMAX-{n}" for n in range(1, 15))
SIGNALS = (
    "SIGABRT", "SIGALRM", "SIGBUS", "SIGCHLD", "SIGCLD", "SIGCONT", "SIGFPE", "SIGHUP", "SIGILL", "SIGINT", "SIGIO",
    "SIGIOT", "SIGKILL", "SIGPIPE", "SIGPOLL", "SIGPROF", "SIGPWR", "SIGQUIT", "SIGSEGV", "SIGSTKFLT", "SIGSTOP",
    "SIGSYS", "SIGTERM", "SIGTRAP", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGURG", "SIGUSR1", "SIGUSR2", "SIGVTALRM",
    "SIGWINCH", "SIGXCPU", "SIGXFSZ", "SIGRTMIN", "SIGRTMAX", *_NUMBERED,
)  # fmt: skip
WINDOWS_SIGNALS = ("SIGKILL", "SIGTERM")


def port_or_name(value: int | str, path: Path, errors: Errors, ctx: object) -> None:
    """A port number, or the name of a container port."""
    report(is_port_name(value) if isinstance(value, str) else is_port_number(value), value, path, errors)


def _header(header: Object, path: Path, errors: Errors, ctx: object) -> None:
    name = header.get("name", "")
    report(is_http_header_name(name), name, path, errors)


def _headers(action: Object, path: Path, errors: Errors, ctx: object) -> None:
    for header in elements(action, "httpHeaders"):  # upstream names the list, not the header
        _header(header, path.child("httpHeaders"), errors, ctx)


def _sleep(action: Object, path: Path, errors: Errors, ctx: PodOptions) -> None:
    seconds = action.get("seconds", 0)
    if ctx.grace is not None and not 0 <= seconds <= ctx.grace:
        text = f"must be non-negative and less than terminationGracePeriodSeconds ({ctx.grace})"
        errors.append(field.invalid(path, seconds, text))


_ACTIONS: dict[str, Rule] = {
    "exec": struct(required("command")),
    "httpGet": struct(at("port", port_or_name, zero=0), at("scheme", enum("HTTP", "HTTPS"), zero=""), _headers),
    "tcpSocket": struct(at("port", port_or_name, zero=0)),
    "grpc": struct(at("port", port_or_name, zero=0)),
    "sleep": _sleep,
}


def _handler(*names: str) -> Rule:
    """Checks that there is exactly one action."""
    actions = [(name, _ACTIONS[name]) for name in names]

    def validate(value: Object, path: Path, errors: Errors, ctx: PodOptions) -> None:
        found = False
        for name, rule in actions:
            action = value.get(name)
            if action is None:
                continue
            if found:
                errors.append(field.forbidden(path.child(name), "may not specify more than 1 handler type"))
            else:
                found = True
                rule(action, path.child(name), errors, ctx)
        need(found, path, errors, detail="must specify a handler type")

    return validate


_PROBE = struct(
    _handler("exec", "httpGet", "tcpSocket", "grpc"),
    at("initialDelaySeconds", nonnegative),
    at("timeoutSeconds", nonnegative),
    at("periodSeconds", nonnegative),
    at("successThreshold", nonnegative),
    at("failureThreshold", nonnegative),
    at("terminationGracePeriodSeconds", minimum(1, "must be greater than 0")),
)


def _once(probe: Object, path: Path, errors: Errors, ctx: object) -> None:
    count = probe.get("successThreshold", 0)
    if count != 1:
        errors.append(field.invalid(path.child("successThreshold"), count, "must be 1"))


def _no_grace(probe: Object, path: Path, errors: Errors, ctx: object) -> None:
    grace = probe.get("terminationGracePeriodSeconds")
    if grace is not None:
        text = "must not be set for readinessProbes"
        errors.append(field.invalid(path.child("terminationGracePeriodSeconds"), grace, text))


PROBES = struct(
    at("livenessProbe", struct(_PROBE, _once)),
    at("readinessProbe", struct(_PROBE, _no_grace)),
    at("startupProbe", struct(_PROBE, _once)),
)


def _stop_signal(signal: str, path: Path, errors: Errors, ctx: PodOptions) -> None:
    if not ctx.os:
        errors.append(field.forbidden(path, "may not be set for containers with empty `spec.os.name`"))
        return
    known = {"windows": WINDOWS_SIGNALS, "linux": SIGNALS}.get(ctx.os)
    if known is not None and signal not in known:
        errors.append(not_supported(path, signal, sorted(known)))


_HOOK = _handler("exec", "httpGet", "tcpSocket", "sleep")
LIFECYCLE = struct(at("postStart", _HOOK), at("preStop", _HOOK), at("stopSignal", _stop_signal))
