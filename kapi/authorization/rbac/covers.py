"""Finds the permissions of some rules that other rules do not cover (upstream: component-helpers ``auth/rbac/validation``).

Upstream splits the requested rules into rules for one verb, group, resource and name, and compares each with every held rule.
A rule of three lists of 200 values becomes eight million rules.  Here the held rules are indexed by their values, and the
values of a requested rule that occur in the same held rules are compared together; the result is the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import NamedTuple

from kapi.authorization.interface import Attributes
from kapi.authorization.rbac.policy import PolicyRule
from kapi.machinery.checkpoint import engage
from kapi.machinery.each import costly, elements, entries

#: a set of held rules: bit n of the integer stands for rule n
Mask = int
Class = tuple[int, ...]
_MAX_CACHED_BYTES = 16 * 1024 * 1024  # bytes of masks
_MAX_RULES_AT_ONCE = 64
_MAX_HOLDERS_AT_ONCE = 256  # rules that have a value
_LINE_OVERHEAD = 40  # characters of a line besides names


class Missing(NamedTuple):
    """The verbs that are not held for one resource or URL, in the rule's order."""

    verbs: tuple[str, ...]
    group: str = ""
    resource: str = ""
    name: str | None = None  # None: for all names
    url: str | None = None

    @property
    def key(self) -> tuple[str | None, ...]:
        return self[1:]


class _Values:
    """One field of the held rules: the rules that list each value in it, and the rules that allow any value.

    Values that are listed by the same rules form a class, which has a number.
    """

    def __init__(self, lists: Iterable[Sequence[str]], any_value: Iterable[bool]) -> None:
        having: dict[str, list[int]] = {}
        everywhere = []
        for number, (values, has_any) in enumerate(elements(zip(lists, any_value, strict=True))):
            if has_any:
                everywhere.append(number)
            else:
                for value in elements(values):
                    having.setdefault(value, []).append(number)
        self.everywhere = _mask(everywhere)
        numbers: dict[tuple[int, ...], int] = {}
        self.class_of: dict[str, Class] = {
            value: (numbers.setdefault(tuple(holders), len(numbers)),) for value, holders in entries(having)
        }
        self.holders = list(numbers)
        self._masks: dict[Class, Mask] = {}
        self._cached_bytes = 0

    def classes(self, requested: Iterable[str]) -> dict[Class, list[str]]:
        """The requested values by the rules that hold them."""
        found: dict[Class, list[str]] = {}
        for value in elements(requested):
            found.setdefault(self.find(value), []).append(value)
        return found

    def find(self, value: str) -> Class:
        return self.class_of.get(value, ())

    def mask(self, found: Class) -> Mask:
        """The rules that list values of a class, or allow any value."""
        known = self._masks.get(found)
        if known is None:
            known = self.everywhere
            for number in found:
                known |= _mask(self.holders[number]) if len(found) == 1 else self.mask((number,))
            self._cached_bytes += known.bit_length() // 8 + 32
            if self._cached_bytes > _MAX_CACHED_BYTES:
                self._masks.clear()
                self._cached_bytes = 0
            self._masks[found] = known
        return known

    def prepare(self) -> None:
        """Computes the masks whose computation takes long."""
        for number, holders in enumerate(elements(self.holders)):
            if len(holders) > _MAX_HOLDERS_AT_ONCE:
                self.mask((number,))

    def holding(self, value: str) -> Mask:
        """The rules that have the value of a request."""
        return self.mask(self.find(value))


class _Resources(_Values):
    def find(self, value: str) -> Class:
        found = self.class_of.get(value, ())
        _, slash, subresource = value.partition("/")
        return found + self.class_of.get(f"*/{subresource}", ()) if slash else found

    def holding_subresource(self, resource: str, subresource: str) -> Mask:
        """The rules that have the resource of a request; the name of the resource may contain a slash itself."""
        if not subresource:
            return self.mask(self.class_of.get(resource, ()))
        full, any_resource = f"{resource}/{subresource}", f"*/{subresource}"
        return self.mask(self.class_of.get(full, ())) | self.mask(self.class_of.get(any_resource, ()))


class _Urls(_Values):
    """``/a/*`` stands for all URLs with that prefix."""

    def __init__(self, rules: Sequence[PolicyRule]) -> None:
        super().__init__((rule.urls for rule in rules), (False for _ in rules))
        self.prefixes: dict[str, Class] = {}
        for url, found in entries(self.class_of):
            if url.endswith("*"):
                prefix = url.rstrip("*")
                self.prefixes[prefix] = self.prefixes.get(prefix, ()) + found
        self.lengths = sorted(set(map(len, self.prefixes)))

    def find(self, value: str) -> Class:
        found = self.class_of.get(value, ())
        for length in self.lengths:
            if length > len(value):
                break
            found += self.prefixes.get(value[:length], ())
        return found


class HeldRules:
    """The rules that a user holds, or that a role has."""

    def __init__(self, rules: Sequence[PolicyRule]) -> None:
        if len(rules) > _MAX_RULES_AT_ONCE:
            engage()
        self.verbs = _Values((rule.verbs for rule in rules), ("*" in rule.verbs for rule in rules))
        self.groups = _Values((rule.groups for rule in rules), ("*" in rule.groups for rule in rules))
        self.resources = _Resources((rule.resources for rule in rules), ("*" in rule.resources for rule in rules))
        self.names = _Values((rule.names for rule in rules), (not rule.names for rule in rules))
        self.urls = _Urls(rules)

    def prepare(self) -> None:
        """Computes masks in advance, so that ``allows`` takes no longer for the first requests than for later ones."""
        for values in (self.verbs, self.groups, self.resources, self.names, self.urls):
            values.prepare()

    def parts(self) -> list[Class]:
        """The many small objects that the index consists of."""
        lists = (self.verbs, self.groups, self.resources, self.names, self.urls)
        return [part for values in lists for part in (*values.class_of.values(), *values.holders)]

    def allows(self, attributes: Attributes) -> bool:
        """Whether one of the rules allows the request; the same as ``PolicyRule.allows`` of each."""
        held = self.verbs.holding(attributes.verb)
        if not attributes.is_resource:
            return bool(held & self.urls.holding(attributes.path))
        held &= self.groups.holding(attributes.group)
        held &= self.resources.holding_subresource(attributes.resource, attributes.subresource)
        return bool(held & self.names.holding(attributes.name))

    def missing(self, requested: PolicyRule) -> Iterator[Missing]:
        """The parts of a rule that are not held, with each resource, name and URL as often as the rule lists it."""
        verbs = self.verbs.classes(requested.verbs)
        if requested.resources and requested.groups:
            yield from self._missing_resources(requested, verbs)
        if requested.urls:
            for found, urls in self.urls.classes(requested.urls).items():
                missing_verbs = self._missing_verbs(verbs, self.urls.mask(found))
                if missing_verbs:
                    listed = _chosen(requested.verbs, missing_verbs, 1)
                    yield from (Missing(listed, url=url) for url in urls)

    def _missing_resources(self, requested: PolicyRule, verbs: dict[Class, list[str]]) -> Iterator[Missing]:
        times = Counter(requested.names)
        names: dict[Class, Sequence[str | None]] = {**self.names.classes(times)} if requested.names else {(): (None,)}
        groups, resources = self.groups.classes(requested.groups), self.resources.classes(requested.resources)
        for (by_group, some_groups), (by_resource, some_resources) in costly(
            product(groups.items(), resources.items())
        ):
            held = self.groups.mask(by_group) & self.resources.mask(by_resource)
            for by_name, some_names in names.items():
                missing_verbs = self._missing_verbs(verbs, held & self.names.mask(by_name))
                if not missing_verbs:
                    continue
                listed = {
                    count: _chosen(requested.verbs, missing_verbs, count) for count in set(times.values()) or (1,)
                }
                for group, resource, name in product(some_groups, some_resources, some_names):
                    yield Missing(listed[times.get(name, 1) if name is not None else 1], group, resource, name)

    def _missing_verbs(self, verbs: dict[Class, list[str]], held: Mask) -> set[str]:
        missing_verbs: set[str] = set()
        for found, some in verbs.items():
            if not self.verbs.mask(found) & held:
                missing_verbs.update(some)
        return missing_verbs


def _mask(numbers: Sequence[int]) -> Mask:
    if not numbers:
        return 0
    bits = bytearray(numbers[-1] // 8 + 1)  # the numbers ascend
    for number in elements(numbers):
        bits[number >> 3] |= 1 << (number & 7)
    return int.from_bytes(bits, "little")


def _chosen(verbs: Sequence[str], missing_verbs: set[str], times: int) -> tuple[str, ...]:
    """Upstream lists a verb as often as the rule lists the name."""
    return tuple(verb for verb in verbs if verb in missing_verbs for _ in range(times))


def _single_rules(rule: PolicyRule) -> Iterator[PolicyRule]:
    """The rule as rules with one verb, one group, one resource and at most one name each."""
    for group, resource, verb in product(rule.groups, rule.resources, rule.verbs):
        for names in [[name] for name in rule.names] or [[]]:
            yield PolicyRule((verb,), (group,), (resource,), names)
    for url, verb in product(rule.urls, rule.verbs):
        yield PolicyRule((verb,), urls=(url,))


def missing_rules(held: Sequence[PolicyRule], requested: Iterable[PolicyRule]) -> list[PolicyRule]:
    """The single rules of ``requested`` that no rule of ``held`` covers, in order.  Not for rules that clients send."""
    rules = HeldRules(held)
    return [single for rule in requested for single in _single_rules(rule) if any(rules.missing(single))]


def missing_compacted(
    held: Sequence[PolicyRule], requested: Iterable[PolicyRule], max_length: int
) -> tuple[list[PolicyRule], bool]:
    """The permissions of ``requested`` that no rule of ``held`` covers, and whether these are all of them.

    They are joined into one rule for each resource (and name).  The list ends after ``max_length`` characters, since its length
    may be the product of the lengths of a rule's lists.
    """
    out: list[PolicyRule] = []
    joined: dict[tuple[str | None, ...], list[str]] = {}
    rules, size = HeldRules(held), 0
    for rule in elements(requested):
        for part in rules.missing(rule):
            if size > max_length:
                return _joined(out, joined), False
            size += (
                _LINE_OVERHEAD + sum(len(text) + 3 for text in part.verbs) + sum(len(text or "") for text in part.key)
            )
            if part.url is not None:
                out.extend(PolicyRule((verb,), urls=(part.url,)) for verb in part.verbs)
            else:
                joined.setdefault(part.key, []).extend(part.verbs)
    return _joined(out, joined), True


def _joined(out: list[PolicyRule], joined: dict[tuple[str | None, ...], list[str]]) -> list[PolicyRule]:
    for (group, resource, name, _), verbs in entries(joined):
        out.append(PolicyRule(verbs, (group or "",), (resource or "",), () if name is None else (name,)))
    return out
