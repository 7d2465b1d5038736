"""One list of groups from the lists of several servers, in aggregated discovery's form (KEP-4020).

Servers that know the same lists make the same one of them.  Order is kept where the lists have one.
Upstream: apiserver ``endpoints/discovery/aggregated/peer_aggregated_handler.go``, apimachinery ``util/sort``.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter

from kapi.machinery.each import elements
from kapi.machinery.tree import Object

#: makes one item of two with the same name; returns the first itself when the second adds nothing
_Join = Callable[[Object, Object], Object]


def merge_groups(lists: Mapping[str, Sequence[Object]], own: str) -> Sequence[Object]:
    """The groups of all servers, of which ``lists`` has the groups by their ids; ``own`` is the id of this one.

    The server whose id comes first decides what two servers say differently about a version.
    """
    merged = _joined(
        [lists[server] for server in sorted(lists)], lambda group: group["metadata"].get("name", ""), _group
    )
    return lists[own] if merged is None else merged


def _group(first: Object, second: Object) -> Object:
    versions = _joined((first["versions"], second["versions"]), itemgetter("version"), _version)
    return first if versions is None else {**first, "versions": versions}


def _version(first: Object, second: Object) -> Object:
    resources = _joined([each.get("resources") or () for each in (first, second)], itemgetter("resource"), _resource)
    if resources is None:
        return first
    return {"version": first["version"], "resources": resources, "freshness": first["freshness"]}


def _resource(first: Object, second: Object) -> Object:
    """With the verbs and subresources of both, sorted."""
    if first == second:
        return first
    verbs = sorted({*(first.get("verbs") or ()), *(second.get("verbs") or ())})
    found: Object = {**first, "verbs": verbs or None}
    below = {sub["subresource"]: sub for each in (first, second) for sub in elements(each, "subresources")}
    if below:
        found["subresources"] = [below[name] for name in sorted(below)]
    return found


def _joined(lists: Sequence[Sequence[Object]], name_of: Callable[[Object], str], join: _Join) -> list[Object] | None:
    """The items of all lists, each name once; None when they all say the same."""
    found: dict[str, Object] = {}
    changed = False
    for items in lists:
        for item in elements(items):
            name = name_of(item)
            before = found.get(name)
            found[name] = item if before is None else join(before, item)
            changed = changed or (before is not None and found[name] is not before)
    names = [[name_of(item) for item in items] for items in lists]
    if not changed and all(each == names[0] for each in names):
        return None
    return [found[name] for name in in_order(names)]


def in_order(lists: Iterable[Sequence[str]]) -> Sequence[str]:
    """All names of some lists: in the order that these have, then by name; only by name when they contradict each other."""
    given = list(lists)
    after: dict[str, set[str]] = {name: set() for names in given for name in names}
    for names in given:
        if len(names) == len(after) == len(set(names)):
            return names
        for name, following in zip(names, names[1:], strict=False):
            after[name].add(following)
    waits = dict.fromkeys(after, 0)
    for followers in after.values():
        for name in followers:
            waits[name] += 1
    ready = [name for name, count in waits.items() if not count]
    heapq.heapify(ready)
    found = []
    while ready:
        found.append(heapq.heappop(ready))
        for name in after[found[-1]]:
            waits[name] -= 1
            if not waits[name]:
                heapq.heappush(ready, name)
    return found if len(found) == len(after) else sorted(after)
