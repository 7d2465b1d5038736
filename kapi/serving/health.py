"""/healthz, /livez and /readyz: named checks that a client can exclude (upstream: apiserver ``server/healthz``)."""

from __future__ import annotations

from collections.abc import Callable

from twisted.logger import Logger

from kapi.request.context import RequestContext
from kapi.request.response import Response

log = Logger()
PLAIN = b"text/plain; charset=utf-8"
_NOSNIFF = ((b"x-content-type-options", b"nosniff"),)
#: returns "" when healthy, else the reason (for the log, and for a request of this check alone)
Check = Callable[[], str]


class HealthChecks:
    """The checks behind one path, in order."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.checks: dict[str, Check] = {}
        self._notes: dict[str, Check] = {}

    def add(self, name: str, check: Check) -> None:
        self.checks[name] = check

    def note(self, name: str, ask: Check) -> None:
        """Adds a check that always passes, with a text for the operator."""
        self.checks[name] = lambda: ""
        self._notes[name] = ask

    @property
    def paths(self) -> list[str]:
        return [self.path, *(f"{self.path}/{name}" for name in self.checks)]

    def failures(self) -> dict[str, str]:
        """Name and reason of every check that fails now."""
        return {name: why for name, why in ((name, check()) for name, check in self.checks.items()) if why}

    def handle(self, ctx: RequestContext) -> Response | None:
        """The answer; None for an unknown check."""
        rest = ctx.path[len(self.path) :]
        if not rest:
            return self._all(ctx)
        check = self.checks.get(rest[1:])
        if check is None:
            return None
        why = check()
        if why:
            return Response(500, f"internal server error: {why}\n".encode(), PLAIN, _NOSNIFF)
        return Response(200, self._ok(rest[1:]).encode(), PLAIN, _NOSNIFF)

    def _ok(self, name: str) -> str:
        ask = self._notes.get(name)
        note = ask() if ask is not None else ""
        return f"ok: {note}" if note else "ok"

    def _all(self, ctx: RequestContext) -> Response:
        excluded = dict.fromkeys(ctx.query.get("exclude", ()))
        lines, failed = [], {}
        for name, check in self.checks.items():
            if name in excluded:
                excluded.pop(name)
                lines.append(f"[+]{name} excluded: ok\n")
                continue
            why = check()
            if why:
                failed[name] = why
                lines.append(f"[-]{name} failed: reason withheld\n")
            else:
                lines.append(f"[+]{name} {self._ok(name)}\n")
        if excluded:
            names = ",".join(f'"{name}"' for name in sorted(excluded))
            lines.append(f"warn: some health checks cannot be excluded: no matches for {names}\n")
        kind = self.path.strip("/")
        if failed:
            log.info("{kind} check failed: {failed}", kind=kind, failed=failed)
            return Response(500, f"{''.join(lines)}{kind} check failed\n".encode(), PLAIN, _NOSNIFF)
        if "verbose" not in ctx.query:
            return Response(200, b"ok", PLAIN, _NOSNIFF)
        return Response(200, f"{''.join(lines)}{kind} check passed\n".encode(), PLAIN, _NOSNIFF)
