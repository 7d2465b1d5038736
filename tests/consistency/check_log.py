"""Checks of the history alone: revisions, versions of objects, quotas and allocations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kapi.store.interface import CREATED
from tests.consistency.history import History, State

SERVICES = "core/services/"


def check_log(history: History, quota_namespace: str = "", quota: int = 0) -> list[str]:
    """``quota`` is how many objects of a kind the quota of that namespace admits."""
    problems: list[str] = []
    for position, state in enumerate(history.states, history.first):
        if state.revision != position:
            problems.append(f"revision {position} is missing: {state.revision} comes instead")
            break
        inside = state.object["metadata"].get("resourceVersion")
        if inside != str(state.revision):
            problems.append(f"revision {state.revision} of {state.key} has {inside} inside")
        before = history.previous[state.revision]
        if state.kind == CREATED and before is not None:
            problems.append(f"{state.key} was created at {state.revision} though it was there since {before.revision}")
        elif state.kind != CREATED and before is None and history.first == 1:
            problems.append(f"{state.key} was changed ({state.kind}) at {state.revision} though it was not there")
    problems += _quota(history, quota_namespace, quota) if quota else []
    problems += _allocations(history)
    return problems


def _quota(history: History, namespace: str, quota: int) -> Iterator[str]:
    used: Counter[str] = Counter()
    for state in history.states:
        group, resource, where, name = state.key.split("/", 3)
        if where != namespace:
            continue
        if resource == "resourcequotas":
            yield from _charges(state, used)
        if resource not in ("configmaps", "secrets"):
            continue
        if state.kind == CREATED:
            used[resource] += 1
            # the root CA's ConfigMap counts as well: it is an object like any other
            if used[resource] > quota:
                yield f"{used[resource]} {resource} at {state.revision} ({name}), {quota} are admitted"
        elif not state.there:
            used[resource] -= 1


def _charges(state: State, there: Counter[str]) -> Iterator[str]:
    """What is admitted is charged before it is stored, so a quota never shows less than there is."""
    shown = (state.object.get("status") or {}).get("used") or {}
    for name, text in shown.items():
        resource = name.removeprefix("count/")
        if resource in ("configmaps", "secrets") and int(text) < there[resource]:
            yield f"the quota shows {text} {resource} at {state.revision}, there are {there[resource]}"


def allocated(state: State) -> set[str]:
    """Addresses and node ports of a Service."""
    spec = state.object.get("spec") or {}
    addresses = {address for address in spec.get("clusterIPs") or [] if address != "None"}
    return addresses | {
        f"{port.get('protocol', 'TCP')} {port['nodePort']}" for port in spec.get("ports") or [] if port.get("nodePort")
    }


def _allocations(history: History) -> Iterator[str]:
    owner: dict[str, str] = {}
    for state in history.states:
        if not state.key.startswith(SERVICES):
            continue
        before = history.previous[state.revision]
        for what in allocated(before) if before is not None else ():
            if owner.get(what) == state.key:
                del owner[what]
        for what in allocated(state) if state.there else ():
            if what in owner:
                yield f"{what} belongs to {owner[what]} and, at {state.revision}, to {state.key}"
            owner[what] = state.key
