"""``--redis-servers-overrides``: resources that have a store of their own.

Upstream: ``--etcd-servers-overrides``, apiserver ``pkg/server/options/etcd.go`` and ``DefaultStorageFactory``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from kapi.machinery.golang import quote
from kapi.machinery.gvk import GroupResource
from kapi.options.errors import ConfigError
from kapi.store.address import Address, parse

FLAG = "--redis-servers-overrides"
_FORMAT = f"{FLAG} invalid, must be of format: group/resource#servers, where servers are URLs, semicolon separated"
_UNKNOWN = "no such resource is built in; custom resources, their definitions and APIServices are in the store of --redis-servers"
_ALL = "*"


def store_overrides(items: Sequence[str], main: Sequence[str]) -> dict[GroupResource, Address]:
    """The stores of the resources that are not in the main store, whose URLs are ``main``.

    ``group/*`` means all resources of a group without an entry of their own.  Raises ConfigError with all errors.
    """
    from kapi.servers.core.install import core_rows  # it imports the large catalogue, so only with the flag

    errors: list[str] = []
    stored = {row.group_resource: row.storage_resource for row in core_rows() if not row.handler}
    given: set[str] = set()
    named: dict[GroupResource, Address] = {}
    groups: dict[str, Address] = {}
    for item in _whole(items):
        place, mark, servers = item.partition("#")
        group, slash, resource = place.partition("/")
        if not (mark and slash and resource and servers) or "#" in servers or "/" in resource:
            errors.append(_FORMAT if "@" in place else f"{_FORMAT}: {quote(place)}")  # show no password
            continue
        try:
            if place in given:
                raise ValueError("it is given twice")
            given.add(place)
            address = _address(servers.split(";"))
            if resource == _ALL:
                _members(group, stored)  # raises ValueError for an unknown group
                groups[group] = address
            else:
                found = _stored(GroupResource(group, resource), stored)
                if named.setdefault(found, address) != address:
                    raise ValueError(f"it is kept as {found}, which is given another store")
        except ValueError as error:
            errors.append(f"{FLAG}: {place}: {error}")
    if errors:
        raise ConfigError(*errors)
    whole = {resource: address for group, address in groups.items() for resource in _members(group, stored)}
    rest = _main(main)
    return {resource: address for resource, address in {**whole, **named}.items() if address != rest}


def _main(urls: Sequence[str]) -> Address | None:
    """The main store's address; None for the embedded store, or for an invalid URL, which is reported when it is opened."""
    try:
        return parse(urls[0]) if urls else None
    except ValueError:
        return None


def _whole(items: Iterable[str]) -> list[str]:
    """Joins entries that were split at a comma between Sentinels: an item without ``#`` belongs to the entry before it."""
    entries: list[str] = []
    for item in items:
        if entries and "#" not in item and "#" in entries[-1]:
            entries[-1] += f",{item}"
        else:
            entries.append(item)
    return entries


def _address(urls: Sequence[str]) -> Address:
    """The address of one store; several URLs must be its Sentinels.  Raises ValueError."""
    first, *others = (parse(url) for url in urls)
    alike = replace(first, hosts=())
    if others and (not first.master or any(replace(other, hosts=()) != alike for other in others)):
        raise ValueError("several URLs must be Sentinels of one service: a resource is kept in one store")
    return replace(first, hosts=(*first.hosts, *(host for other in others for host in other.hosts)))


def _stored(resource: GroupResource, stored: Mapping[GroupResource, GroupResource]) -> GroupResource:
    """The stored resource of a resource: Events of both groups are stored as one.  Raises ValueError."""
    found = stored.get(resource)
    if found is None:
        raise ValueError(_UNKNOWN)
    return found


def _members(group: str, stored: Mapping[GroupResource, GroupResource]) -> list[GroupResource]:
    """The stored resources of a group.  Raises ValueError when there are none."""
    found = [kept for kept in dict.fromkeys(stored.values()) if kept.group == group]
    if not found:
        raise ValueError(_UNKNOWN)
    return found
