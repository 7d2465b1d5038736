"""The Pods that an argument means, and their containers (upstream: kubectl ``polymorphichelpers``, ``cmd/util/podcmd``)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TextIO

from kapi.cli.builder import Builder
from kapi.cli.factory import Factory
from kapi.cli.info import Info
from kapi.cli.messages import CommandError
from kapi.machinery.selectors import selector_text
from kapi.machinery.tree import Object

DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
_WITH_SELECTOR = ("DaemonSet", "Deployment", "Job", "ReplicaSet", "StatefulSet")


async def named(factory: Factory, program: str, text: str, kind: str = "pods") -> Info:
    """``NAME`` of a Pod (or ``kind``), or ``TYPE/NAME``, read from the server.  Raises CommandError and StatusError."""
    builder = Builder(factory, program).namespace(factory.namespace).latest()
    arguments = [text] if "/" in text else [kind, text]
    result = await builder.resource_type_or_name(arguments, allow_empty_selector=False).do()
    infos = await result.infos()
    if result.errors:
        raise result.errors[0]
    return infos[0]


async def pods_of(factory: Factory, info: Info, purpose: str) -> list[Object]:
    """The Pod itself, or those that the object selects, the most useful first.

    Waits for the first of them, for ``--pod-running-timeout``.  Raises CommandError.
    """
    obj = info.object or {}
    if info.mapping.kind == "Pod":
        return [obj]
    spec = obj.get("spec") or {}
    if info.mapping.kind in ("ReplicationController", "Service"):
        selector = selector_text({"matchLabels": spec.get("selector") or {}}) if spec.get("selector") else ""
    elif info.mapping.kind in _WITH_SELECTOR:
        selector = selector_text(spec.get("selector") or {})
    else:
        raise CommandError(
            f"cannot {purpose} *v1.{info.mapping.kind}: selector for *v1.{info.mapping.kind} not implemented"
        )
    if not selector:
        raise CommandError(f"invalid service '{info.name}': Service is defined without a selector")
    end = factory.reactor.seconds() + factory.flags.get_duration("pod-running-timeout")
    while True:
        page = await _page(factory, selector, info.namespace)
        if page.get("items"):
            return _by_use(page["items"])
        left = end - factory.reactor.seconds()
        if left <= 0:
            raise CommandError("timed out waiting for the condition")
        await _change(factory, selector, info.namespace, page["metadata"]["resourceVersion"], left)


async def _change(factory: Factory, selector: str, namespace: str, revision: str, seconds: float) -> None:
    """Until there is a Pod with these labels, or the time is over."""
    request = factory.client("v1").get().namespace(namespace).resource("pods").timeout(0)
    options = {"labelSelector": selector, "resourceVersion": revision, "timeoutSeconds": math.ceil(seconds)}
    watch = await request.params(options).watch()
    try:
        await watch.next()
    finally:
        watch.close()


async def selected(factory: Factory, selector: str, namespace: str = "") -> list[Object]:
    """The Pods with these labels."""
    return _by_use((await _page(factory, selector, namespace)).get("items") or [])


async def _page(factory: Factory, selector: str, namespace: str) -> Object:
    request = factory.client("v1").get().namespace(namespace or factory.namespace).resource("pods")
    page: Object = await request.param("labelSelector", selector).do()
    return page


def _by_use(pods: list[Object]) -> list[Object]:
    return sorted(pods, key=_use)


def _use(pod: Object) -> tuple[bool, bool, bool, str]:
    """Those that run come first."""
    status = pod.get("status") or {}
    ready = any(one.get("type") == "Ready" and one.get("status") == "True" for one in status.get("conditions") or ())
    placed = bool((pod.get("spec") or {}).get("nodeName"))
    return not placed, status.get("phase") != "Running", not ready, str(pod["metadata"]["name"])


def containers_of(pod: Object) -> Iterator[tuple[str, str]]:
    """Name and shown name of each: init containers, containers, ephemeral ones."""
    spec = pod.get("spec") or {}
    for key, mark in (("containers", ""), ("ephemeralContainers", " (ephem)"), ("initContainers", " (init)")):
        for container in spec.get(key) or ():
            yield container["name"], container["name"] + mark


def check_pod_timeout(factory: Factory, usage: str = "") -> None:
    """Raises CommandError."""
    if factory.flags.get_duration("pod-running-timeout") <= 0:
        raise CommandError("--pod-running-timeout must be higher than zero", usage=usage)


def container_of(factory: Factory, pod: Object, name: str, *, quiet: bool = False) -> str:
    """The container that is meant.  Raises CommandError."""
    metadata: Object = pod.get("metadata") or {}
    known = list(containers_of(pod))
    shown = ", ".join(text for _, text in known)
    if name:
        if all(name != one for one, _ in known):
            raise CommandError(f"container {name} is not valid for pod {metadata['name']} out of: {shown}")
        return name
    chosen: str = (metadata.get("annotations") or {}).get(DEFAULT_CONTAINER) or ""
    if any(chosen == one for one, _ in known):
        return chosen
    if not known:
        raise CommandError(f"no containers in pod {metadata['name']}")
    if len(known) > 1 and not quiet:
        factory.err.write(f'Defaulted container "{known[0][0]}" out of: {shown}\n')
        factory.err.flush()
    return known[0][0]


def write_bytes(out: TextIO, data: bytes) -> None:
    """To a text stream, at once, as they are."""
    buffer = getattr(out, "buffer", None)
    if buffer is None:
        out.write(data.decode("utf-8", "replace"))
        return
    out.flush()
    buffer.write(data)
    buffer.flush()
