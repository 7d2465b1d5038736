"""One list of groups from the lists of several servers, in aggregated discovery's form (KEP-4020).

Servers that know the same lists make the same one of them.  Order is kept where the lists have one.
Upstream: apiserver ``endpoints/discovery/aggregated/peer_aggregated_handler.go``, apimachinery ``util/sort``.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence

from kapi.machinery.each import elements
from kapi.machinery.tree import Object

#: makes one item of two with the same name; returns the first itself when the second adds nothing
_Join = Callable[[Object, Object], Object]


def merge_groups(lists: Mapping[str, Sequence[Object]], own: str) -> Sequence[Object]:
    """The groups of all servers, of which ``lists`` has the groups by their ids; ``own`` is the id of this one.

    The server whose id comes first decides what two servers say differently about a version.
    """
    merged: dict[str, Object] = {}
    changed = False
    for server in sorted(lists):
        for group in elements(lists[server]):
            name = group["metadata"].get("name", "")
            before = merged.get(name)
            merged[name] = group if before is None else _group(before, group)
            changed = changed or (before is not None and merged[name] is not before)
    names = {server: [group["metadata"].get("name", "") for group in groups] for server, groups in lists.items()}
    if not changed and all(each == names[own] for each in names.values()):
        return lists[own]
    return [merged[name] for name in in_order(names[server] for server in sorted(names))]


def _group(first: Object, second: Object) -> Object:
    versions = _joined(first["versions"], second["versions"], "version", _version)
    return first if versions is None else {**first, "versions": versions}


def _version(first: Object, second: Object) -> Object:
    resources = _joined(first.get("resources") or (), second.get("resources") or (), "resource", _resource)
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


def _joined(first: Sequence[Object], second: Sequence[Object], key: str, join: _Join) -> list[Object] | None:
    """The items of both lists, each name (the field ``key``) once; None when the second adds nothing."""
    found = {item[key]: item for item in first}
    changed = False
    for item in elements(second):
        before = found.get(item[key])
        found[item[key]] = item if before is None else join(before, item)
        changed = changed or (before is not None and found[item[key]] is not before)
    names = [[item[key] for item in items] for items in (first, second)]
    if not changed and names[0] == names[1]:
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
