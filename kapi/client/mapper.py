"""The RESTMapper: finds resources by the names that users write (upstream: apimachinery ``meta``, client-go ``restmapper``).

A plural, singular, short name or kind is found alone, with a group (``deployments.apps``), or with version and group
(``deployments.v1.apps``).  Of several matches the match in the server's first group counts, in the preferred version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from kapi.client.discovery import APIResource, Discovered
from kapi.client.errors import NoMatch
from kapi.machinery.gvk import GroupVersion


class Source(Protocol):
    async def discover(self) -> Discovered: ...


class RESTMapper:
    """For an unknown name it reads the source again, if the source has ``invalidate`` (a cache)."""

    def __init__(self, source: Source, warn: Callable[[str], object] = lambda text: None) -> None:
        """``warn`` is called, once for each, with what else a short name may mean."""
        self._source, self._warn = source, warn
        self._table: _Table | None = None
        self._told: set[str] = set()

    async def table(self) -> _Table:
        if self._table is None:
            self._table = _Table(await self._source.discover())
        return self._table

    async def discovered(self) -> Discovered:
        """All groups and resources of the source."""
        return await self._source.discover()

    async def resource_for(self, text: str) -> APIResource:
        """The resource with a name as above.  Raises NoMatch."""
        found = (await self.table()).resource(text)
        if found is None and self._again():
            found = (await self.table()).resource(text)
        if found is None:
            name, _, group = text.partition(".")
            where = f' in group "{group}"' if group else ""
            raise NoMatch(f'the server doesn\'t have a resource type "{name}"{where}')
        self._tell(await self.table(), text)
        return found

    async def resources_for(self, name: str) -> list[APIResource]:
        """All resources with a name, in every group and version, the preferred one first.  Raises NoMatch."""
        found = (await self.table()).resources_named(name)
        if not found and self._again():
            found = (await self.table()).resources_named(name)
        if not found:
            raise NoMatch(f'the server doesn\'t have a resource type "{name}"')
        self._tell(await self.table(), name)
        return found

    def _tell(self, table: _Table, text: str) -> None:
        for other in table.others(text) if text not in self._told else ():
            self._warn(f'short name "{text.partition(".")[0]}" could also match lower priority resource {other}')
        self._told.add(text)

    async def kind_for(self, api_version: str, kind: str) -> APIResource:
        """The resource of an object.  Raises NoMatch."""
        found = (await self.table()).kind(api_version, kind)
        if found is None and self._again():
            found = (await self.table()).kind(api_version, kind)
        if found is None:
            raise NoMatch(f'no matches for kind "{kind}" in version "{api_version}"')
        return found

    async def category(self, name: str) -> list[APIResource]:
        """The resources that belong to a category such as ``all``, in the server's order."""
        return (await self.table()).category(name)

    def _again(self) -> bool:
        invalidate: Callable[[], object] | None = getattr(self._source, "invalidate", None)
        if invalidate is None or getattr(self._source, "fresh", False):
            return False
        invalidate()
        self._table = None
        return True


class _Table:
    def __init__(self, found: Discovered) -> None:
        self._found = found
        places = {
            (group.name, version): (number, version != group.preferred, position)
            for number, group in enumerate(found.groups)
            for position, version in enumerate(group.versions)
        }
        self.resources = sorted(
            found.resources, key=lambda one: places.get((one.group, one.version), (1 << 30, True, 0))
        )
        self._names: dict[str, list[APIResource]] = {}
        self._shorts: dict[str, list[APIResource]] = {}
        for one in self.resources:
            for name in {one.name, one.singular or one.kind.lower(), one.kind.lower()}:
                self._names.setdefault(name, []).append(one)
            for name in one.short_names:
                self._shorts.setdefault(name, []).append(one)

    def resources_named(self, name: str) -> list[APIResource]:
        shorts = () if self._is_full(name, "") else self._shorts.get(name.lower())
        return list(shorts or self._names.get(name.lower()) or ())

    def _is_full(self, name: str, group: str) -> bool:
        """Whether it is a resource's plural or singular name, which comes before short names."""
        known = self._names.get(name, ())
        return any(name in (one.name, one.singular) for one in known if not group or one.group == group)

    def resource(self, text: str) -> APIResource | None:
        parts = text.split(".", 2)
        if len(parts) == 3:
            found = self._find(parts[0], parts[2], parts[1])
            if found is not None:
                return found
        name, _, group = text.partition(".")
        return self._find(name, group, "")

    def _find(self, name: str, group: str, version: str) -> APIResource | None:
        """The matches of a name.  Short names are case-sensitive, other names are not, as in kubectl."""
        group = group.lower()
        shorts = {} if self._is_full(name, group) else self._shorts
        for table, known_as in ((shorts, name), (self._names, name.lower())):
            known = [one for one in table.get(known_as, ()) if not version or one.version == version]
            if version and not group:  # "pods.v1." names the core group
                known = [one for one in known if not one.group]
            if group:
                exact = [one for one in known if one.group == group]
                known = exact or [one for one in known if one.group.startswith(group)]
            if known:
                return known[0]
        return None

    def others(self, text: str) -> list[str]:
        """The full names of other resources that have the short name, if it is one."""
        name, _, group = text.partition(".")
        if self._is_full(name, group):
            return []
        known = [one for one in self._shorts.get(name, ()) if not group or one.group == group]
        return list(dict.fromkeys(f"{one.name}.{one.group}".rstrip(".") for one in known))[1:]

    def kind(self, api_version: str, kind: str) -> APIResource | None:
        """Also in lower case, in the preferred version without one, and for lists, whose name is a guess, as upstream."""
        group, version = GroupVersion.parse(api_version)
        known = [one for one in self.resources if one.group == group and version in (one.version, "")]
        for one in known:
            if kind in (one.kind, one.kind.lower()):
                return one
        item = kind.removesuffix("List")
        for one in known if kind != item else ():
            if item in (one.kind, ""):
                name, namespaced = f"{kind.lower()}s", one.namespaced and bool(item)
                return APIResource(group, one.version, name, kind, namespaced)
        return None

    def category(self, name: str) -> list[APIResource]:
        found: dict[tuple[str, str], APIResource] = {}
        for one in self.resources:
            if name in one.categories:
                found.setdefault((one.group, one.name), one)
        return list(found.values())


def preferred(found: Discovered) -> Iterable[APIResource]:
    """Each resource once, in the most preferred version that has it, in the server's order."""
    chosen: dict[tuple[str, str], APIResource] = {}
    for one in _Table(found).resources:
        chosen.setdefault((one.group, one.name), one)
    return chosen.values()
