"""Rules of fault injection: the requests that they match, and the faults.  Pure functions."""

from __future__ import annotations

from fnmatch import fnmatchcase

import msgspec

from kapi.machinery.golang import parse_duration
from kapi.machinery.tree import Object
from kapi.request.info import RequestInfo

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
