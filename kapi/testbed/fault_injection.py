"""Fault injection for tests: refusals, latency, lost answers, watches that end or are held back, outdated lists.

A watch that is held behaves like one whose client does not read: its events queue up in order, up to the bound of all watches.
Only with ``--enable-fault-injection``; ``/kapi/faults`` is for members of system:masters.
"""

from __future__ import annotations

from collections.abc import Awaitable
from fnmatch import fnmatchcase

import msgspec
import orjson
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.task import deferLater

from kapi.authorization.forbidden import require_masters
from kapi.endpoints.body import raw_body
from kapi.filters.chain import Handler
from kapi.machinery import status
from kapi.machinery.golang import parse_duration
from kapi.machinery.tree import Object
from kapi.request.context import RequestContext, Stream, Streams
from kapi.request.http import HTTPRequest
from kapi.request.info import RequestInfo
from kapi.request.response import Response, StreamResponse
from kapi.serving.routing import Routes

MAX_RULES = 100
MAX_DELAY = 300.0  # seconds
_TIMES = ("before", "after")
CUT, EXPIRED, HOLD = "cut", "expired", "hold"
_WATCH = ("", CUT, EXPIRED, HOLD)


class Match(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Shell patterns; a field that is not given matches everything."""

    user: str = "*"
    user_agent: str = "*"
    verb: str = "*"
    group: str = "*"
    resource: str = "*"  # with a subresource: pods/status
    namespace: str = "*"
    name: str = "*"

    def matches(self, info: RequestInfo, user: str, agent: str) -> bool:
        if not info.is_resource:
            return False
        resource = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
        return all(
            pattern == "*" or fnmatchcase(value, pattern)
            for value, pattern in (
                (user, self.user), (agent, self.user_agent), (info.verb, self.verb), (info.group, self.group),
                (resource, self.resource), (info.namespace, self.namespace), (info.name, self.name),
            )
        )  # fmt: skip


class Rule(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """One fault.  ``decoded`` makes it."""

    match: Match = msgspec.field(default_factory=Match)
    skip: int = 0  # the first matching requests that are not affected
    times: int = 0  # affected requests after these; 0: all
    when: str = "before"  # refuse or close before the request has an effect, or after
    delay: str = ""  # Go duration
    status: int = 0  # the answer's code
    message: str = "a fault on command"
    retry_after_seconds: int = 0
    close: bool = False  # close the connection instead of answering
    watch: str = ""  # "cut" breaks watches, "expired" begins or ends them with 410, "hold" holds their events back
    watch_after: str = "0s"  # the time until they are cut, held back or ended
    watch_for: str = ""  # how long they are held back; "": until the rule is removed
    list_revision: int = 0  # lists without a resourceVersion show this revision
    seen: int = 0  # requests that matched; counted here
    hits: int = 0  # requests that were hit

    @property
    def seconds(self) -> float:
        return parse_duration(self.delay) if self.delay else 0.0

    @property
    def watch_seconds(self) -> float:
        return parse_duration(self.watch_after)

    @property
    def meets_running(self) -> bool:
        """Whether the rule also affects watches that have begun before."""
        return self.watch == HOLD or (self.watch == EXPIRED and self.watch_seconds > 0)

    @property
    def held_seconds(self) -> float:
        return parse_duration(self.watch_for) if self.watch_for else 0.0

    def hit(self) -> bool:
        """Counts a matching request; returns whether it is affected."""
        self.seen += 1
        if self.seen <= self.skip or (self.times and self.hits >= self.times):
            return False
        self.hits += 1
        return True


def decoded(data: bytes) -> Rule:
    """A rule from JSON.  Raises ValueError with the reason."""
    rule = msgspec.json.decode(data, type=Rule)  # its errors are ValueErrors
    rule.seen = rule.hits = 0
    for text in (rule.delay or "0s", rule.watch_after, rule.watch_for or "0s"):
        if not 0 <= parse_duration(text) <= MAX_DELAY:
            raise ValueError(f"durations are from 0 to {MAX_DELAY:.0f}s: {text}")
    if rule.when not in _TIMES or rule.watch not in _WATCH:
        raise ValueError(f"when is one of {_TIMES}, watch one of {_WATCH}")
    if rule.status and not 400 <= rule.status <= 599:
        raise ValueError("status is from 400 to 599")
    if min(rule.skip, rule.times, rule.retry_after_seconds, rule.list_revision) < 0:
        raise ValueError("numbers are not negative")
    if not (rule.delay or rule.status or rule.close or rule.watch or rule.list_revision):
        raise ValueError("a rule has at least one of delay, status, close, watch, listRevision")
    return rule


class Rules:
    """The rules in order of their creation; the first that affects a request is applied."""

    def __init__(self) -> None:
        self._rules: dict[str, Rule] = {}
        self._last = 0

    def __bool__(self) -> bool:
        return bool(self._rules)

    def add(self, rule: Rule) -> str:
        """Adds a rule and returns its name.  Raises ValueError when there are too many."""
        if len(self._rules) >= MAX_RULES:
            raise ValueError(f"there are {MAX_RULES} rules already")
        self._last += 1
        self._rules[str(self._last)] = rule
        return str(self._last)

    def remove(self, name: str = "") -> list[Rule]:
        """Removes one rule, or all, and returns those that existed."""
        names = [name] if name else list(self._rules)
        return [self._rules.pop(one) for one in names if one in self._rules]

    def has(self, rule: Rule) -> bool:
        return any(one is rule for one in self._rules.values())

    def all(self) -> Object:
        return {name: msgspec.to_builtins(rule) for name, rule in self._rules.items()}

    def find(self, info: RequestInfo, user: str, agent: str) -> Rule | None:
        for rule in self._rules.values():
            if rule.match.matches(info, user, agent) and rule.hit():
                return rule
        return None


class HeldWatches:
    """The open watches of a server; a watch is held back while at least one rule holds it, or ended by a rule."""

    def __init__(self, reactor: IReactorTime, rules: Rules) -> None:
        self._reactor = reactor
        self._rules = rules
        self._running: dict[Stream, _Running] = {}

    def follow(self, ctx: RequestContext, rule: Rule | None) -> None:
        """Tracks a watch that is requested; ``rule`` is applied when it has begun."""
        assert ctx.info is not None
        user, agent = "" if ctx.user is None else ctx.user.name, ctx.header("user-agent") or ""
        who = (ctx.info, user, agent)
        ctx.watches = _Following(self, ctx.watches, who, rule)

    def hold(self, rule: Rule) -> None:
        """Applies a rule to the open watches that match it."""
        for running in list(self._running.values()):
            if rule.match.matches(*running.who) and rule.hit():
                running.hold(rule)

    def release(self, rule: Rule) -> None:
        """Ends the effect of a rule."""
        for running in list(self._running.values()):
            running.release(rule)

    def begun(self, stream: Stream, who: tuple[RequestInfo, str, str], rule: Rule | None) -> None:
        running = self._running[stream] = _Running(self._reactor, stream, who)
        if rule is not None and self._rules.has(rule):  # it may have been removed meanwhile
            running.hold(rule)

    def ended(self, stream: Stream) -> None:
        running = self._running.pop(stream, None)
        if running is not None:
            running.end()


class _Following:
    """Replaces the server's set of watches in one request, to be notified when the watch begins and ends."""

    __slots__ = ("_held", "_all", "_who", "_rule")

    def __init__(
        self, held: HeldWatches, streams: Streams | None, who: tuple[RequestInfo, str, str], rule: Rule | None
    ) -> None:
        self._held, self._all, self._who, self._rule = held, streams, who, rule

    def add(self, stream: Stream) -> None:
        if self._all is not None:
            self._all.add(stream)
        self._held.begun(stream, self._who, self._rule)

    def discard(self, stream: Stream) -> None:
        if self._all is not None:
            self._all.discard(stream)
        self._held.ended(stream)


class _Running:
    """One watch.  ``who`` is matched by rules: (info, user name, user agent)."""

    __slots__ = ("who", "_reactor", "_stream", "_rules", "_calls")

    def __init__(self, reactor: IReactorTime, stream: Stream, who: tuple[RequestInfo, str, str]) -> None:
        self.who = who
        self._reactor = reactor
        self._stream = stream
        self._rules: dict[int, Rule] = {}  # rules that hold it now, by id()
        self._calls: dict[int, IDelayedCall] = {}  # when the effect of a rule begins or ends, by id() of the rule

    def hold(self, rule: Rule) -> None:
        if rule.watch_seconds:
            self._calls[id(rule)] = self._reactor.callLater(rule.watch_seconds, self._begin, rule)
        else:
            self._begin(rule)

    def _begin(self, rule: Rule) -> None:
        self._calls.pop(id(rule), None)
        if rule.watch == EXPIRED:
            self._stream.fail(status.expired(rule.message))
            return
        self._rules[id(rule)] = rule
        self._stream.hold()
        if rule.held_seconds:
            self._calls[id(rule)] = self._reactor.callLater(rule.held_seconds, self.release, rule)

    def release(self, rule: Rule) -> None:
        call = self._calls.pop(id(rule), None)
        if call is not None and call.active():
            call.cancel()
        if self._rules.pop(id(rule), None) is not None and not self._rules:
            self._stream.release()

    def end(self) -> None:
        for call in self._calls.values():
            call.cancel()
        self._calls.clear()


PATH = "/kapi/faults"
_REASONS = {
    kind.code: kind.reason
    for kind in (
        status.Forbidden, status.NotFound, status.Conflict, status.Expired, status.TooManyRequests, status.InternalError,
        status.ServiceUnavailable, status.Timeout,
    )
}  # fmt: skip


class FaultInjection:
    app = Routes()

    def __init__(self, reactor: IReactorTime) -> None:
        self._reactor = reactor
        self.rules = Rules()
        self._held = HeldWatches(reactor, self.rules)

    @app.route(PATH, methods=("GET", "POST", "DELETE"), listed=False)
    def answer(self, ctx: RequestContext) -> Response:
        """GET lists all rules, POST adds one, DELETE (``?name=``) removes one or all.  Raises StatusError."""
        require_masters(ctx.user, "faults are for members of system:masters")
        if ctx.method == "POST":
            try:
                name = self.add(raw_body(ctx))
            except ValueError as error:
                raise status.bad_request(f"no rule: {error}") from None
            return Response(201, orjson.dumps({"name": name}))
        if ctx.method == "DELETE" and not self.remove(ctx.first("name")):
            raise status.NotFound("there is no such rule")
        return Response(200, orjson.dumps({"rules": self.rules.all()}))

    def add(self, data: bytes) -> str:
        """Adds a rule from JSON and returns its name.  Raises ValueError with the reason."""
        rule = decoded(data)
        name = self.rules.add(rule)
        if rule.meets_running:
            self._held.hold(rule)
        return name

    def remove(self, name: str = "") -> bool:
        """Removes one rule, or all.  Returns False when there is none with this name."""
        removed = self.rules.remove(name)
        for rule in removed:
            self._held.release(rule)
        return bool(removed) or not name

    def around(self, handler: Handler) -> Handler:
        """Wraps ``handler`` with the faults of the rules."""
        rules = self.rules

        def handle(ctx: RequestContext) -> Response | Awaitable[Response]:
            rule = None
            if rules and ctx.info is not None:
                user = "" if ctx.user is None else ctx.user.name
                rule = rules.find(ctx.info, user, ctx.header("user-agent") or "")
            if ctx.info is not None and ctx.info.verb == "watch":
                self._held.follow(ctx, rule if rule is not None and rule.meets_running else None)
            return handler(ctx) if rule is None else self._fault(rule, ctx, handler)

        return handle

    async def _fault(self, rule: Rule, ctx: RequestContext, handler: Handler) -> Response:
        assert ctx.info is not None
        if rule.seconds:
            await deferLater(self._reactor, rule.seconds)
        if rule.when == "before":
            self._refuse(rule, ctx)
        watch = ctx.info.verb == "watch"
        if watch and rule.watch == EXPIRED and not rule.watch_seconds:
            return Response(200, orjson.dumps({"type": "ERROR", "object": _status(rule, 410).status}) + b"\n")
        if rule.list_revision and ctx.info.verb == "list" and not ctx.first("resourceVersion"):
            ctx.query["resourceVersion"] = [str(rule.list_revision)]
            ctx.query["resourceVersionMatch"] = ["Exact"]
        result = handler(ctx)
        answer = result if isinstance(result, Response) else await result
        if rule.when == "after":
            try:
                self._refuse(rule, ctx)
            except status.StatusError:
                answer.drop()
                raise
        if watch and rule.watch == CUT and isinstance(answer, StreamResponse):
            return self._cut(rule, answer)
        return answer

    def _refuse(self, rule: Rule, ctx: RequestContext) -> None:
        """Raises the StatusError of the rule, or closes the connection."""
        if rule.close:
            ctx.http.abort()
            raise status.service_unavailable("the connection is closed")
        if rule.status:
            raise _status(rule, rule.status)

    def _cut(self, rule: Rule, answer: StreamResponse) -> Response:
        async def run(http: HTTPRequest) -> None:
            call = self._reactor.callLater(rule.watch_seconds, http.abort)
            try:
                await answer.run(http)
            finally:
                if call.active():
                    call.cancel()

        return StreamResponse(run, answer.status, answer.content_type, answer.headers, answer.drop)


def _status(rule: Rule, code: int) -> status.StatusError:
    details = {"retryAfterSeconds": rule.retry_after_seconds} if rule.retry_after_seconds else None
    return status.StatusError(rule.message, code=code, reason=_REASONS.get(code, ""), details=details)
