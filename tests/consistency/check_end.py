"""Checks when all is quiet: the store's objects, each server's cache and the quota are what the history says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from kapi.store.entries import read_value
from tests.consistency.history import History, State
from tests.consistency.records import Selector, Stream

QUOTA_COUNTS = ("configmaps", "secrets")


def differing_objects(history: History, values: Mapping[str, bytes]) -> list[str]:
    """``values`` is the store's hash, all of it."""
    problems: list[str] = []
    replayed = {key: state for key in history.keys() if (state := history.state(key, history.last)) is not None}
    for key in sorted(values.keys() | replayed.keys()):
        state, value = replayed.get(key), values.get(key)
        stored = read_value(key.encode(), value) if value is not None else None
        if (
            state is None
            or stored is None
            or state.revision != stored.revision
            or state.object != orjson.loads(stored.data)
        ):
            problems.append(f"the store has {stored}, its history {state}")
    return problems


def differing_items(history: History, who: str, items: Iterable[Any]) -> list[str]:
    """``items`` are of a server's list: each is what was stored at its revision, to the last field."""
    problems: list[str] = []
    for obj in items:
        state = history.at(int(obj["metadata"]["resourceVersion"]))
        # items of a list do not say their type
        if state is None or _untyped(state.object) != _untyped(obj):
            problems.append(f"{who} has {obj}, the store {state}")
    return problems


def _untyped(obj: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in obj.items() if name not in ("kind", "apiVersion")}


def unfinished(history: History, stream: Stream) -> State | None:
    """The first change that a running watch has not been told of; None when it has been told all."""
    if stream.since is None and not any(event.type == "INITIAL" for event in stream.events):
        return history.states[-1] if history.states else None
    return next((state for _, state in history.events(stream.prefix, stream.selector, stream.last)), None)


def differing_quota(history: History, namespace: str, used: Mapping[str, str]) -> list[str]:
    """``used`` is what the quota's status shows."""
    there = {
        f"count/{resource}": str(len(history.replay(f"core/{resource}/{namespace}/", Selector(), history.last)))
        for resource in QUOTA_COUNTS
    }
    shown = {name: used.get(name, "") for name in there}
    return [] if shown == there else [f"the quota shows {used}, there are {there}"]
