"""The Pods that an argument names, and their containers (upstream: kubectl ``polymorphichelpers``, ``cmd/util/podcmd``)."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import TextIO

from twisted.internet.defer import Deferred, TimeoutError

from kapi.kubectl.builder import Builder
from kapi.kubectl.factory import Factory
from kapi.kubectl.info import Info
from kapi.kubectl.messages import SCHEME, CommandError
from kapi.machinery.selectors import selector_text
from kapi.machinery.tree import Object

DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
_WITH_SELECTOR = ("DaemonSet", "Deployment", "Job", "ReplicaSet", "StatefulSet")


async def named_object(factory: Factory, program: str, text: str, kind: str = "pods", *, scheme: str = SCHEME) -> Info:
    """Reads the object ``NAME`` (of ``kind``) or ``TYPE/NAME`` from the server.  Raises CommandError and StatusError."""
    builder = Builder(factory, program).namespace(factory.namespace).latest().known(scheme)
    result = await builder.resource_names(kind, [text]).do()
    infos = await result.all_or_first_error()
    return infos[0]


async def pods_of(factory: Factory, info: Info, purpose: str) -> list[Object]:
    """The Pod itself, or the Pods that the object selects, ready ones first.

    Waits up to ``--pod-running-timeout`` until there is one.  Raises CommandError.
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
        problem = f"invalid service '{info.name}': Service is defined without a selector"
        raise CommandError(f"cannot {purpose} *v1.{info.mapping.kind}: {problem}")
    end = factory.reactor.seconds() + factory.flags.get_duration("pod-running-timeout")
    while True:
        page = await _page(factory, selector, info.namespace)
        if page.get("items"):
            return _most_useful_first(page["items"])
        left = end - factory.reactor.seconds()
        if left <= 0:
            raise CommandError("timed out waiting for the condition")
        change = Deferred.fromCoroutine(
            _change(factory, selector, info.namespace, page["metadata"]["resourceVersion"], left)
        )
        with contextlib.suppress(TimeoutError):
            await change.addTimeout(left, factory.reactor)  # the server counts whole seconds


async def _change(factory: Factory, selector: str, namespace: str, revision: str, seconds: float) -> None:
    """Waits for a Pod with these labels, or until the time is over."""
    request = factory.client("v1").get().namespace(namespace).resource("pods").timeout(0)
    options = {"labelSelector": selector, "resourceVersion": revision, "timeoutSeconds": math.ceil(seconds)}
    watch = await request.params(options).watch()
    try:
        await watch.next()
    finally:
        watch.close()


async def selected_pods(factory: Factory, selector: str) -> list[Object]:
    """The Pods with these labels, ready ones first."""
    builder = Builder(factory).namespace(factory.namespace).labels(selector).resource_type_or_name(["pods"]).flatten()
    return _most_useful_first([info.object or {} for info in await (await builder.do()).all_or_first_error()])


async def _page(factory: Factory, selector: str, namespace: str) -> Object:
    request = factory.client("v1").get().namespace(namespace).resource("pods")
    page: Object = await request.param("labelSelector", selector).do()
    return page


def _most_useful_first(pods: list[Object]) -> list[Object]:
    return sorted(pods, key=_usefulness)


def _usefulness(pod: Object) -> tuple[bool, bool, bool, str]:
    """A sort key: ready and running Pods come first."""
    status = pod.get("status") or {}
    ready = any(one.get("type") == "Ready" and one.get("status") == "True" for one in status.get("conditions") or ())
    placed = bool((pod.get("spec") or {}).get("nodeName"))
    return not placed, status.get("phase") != "Running", not ready, str(pod["metadata"]["name"])


def containers_of(pod: Object) -> Iterator[tuple[str, str]]:
    """Name and displayed name of each container: ordinary, ephemeral and init containers."""
    spec = pod.get("spec") or {}
    for key, mark in (("containers", ""), ("ephemeralContainers", " (ephem)"), ("initContainers", " (init)")):
        for container in spec.get(key) or ():
            yield container["name"], container["name"] + mark


def check_pod_timeout(factory: Factory, usage: str = "") -> None:
    """Raises CommandError for a ``--pod-running-timeout`` that is not positive."""
    if factory.flags.get_duration("pod-running-timeout") <= 0:
        raise CommandError("--pod-running-timeout must be higher than zero", usage=usage)


def container_of(factory: Factory, pod: Object, name: str, *, quiet: bool = False, err: TextIO | None = None) -> str:
    """The container with this name, or the Pod's default one for "".  Raises CommandError.

    Unless ``quiet``, it prints the chosen one of several containers on ``err`` or the error stream.
    """
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
        err = err or factory.err
        err.write(f'Defaulted container "{known[0][0]}" out of: {shown}\n')
        err.flush()
    return known[0][0]


def write_bytes(out: TextIO, data: bytes) -> None:
    """Writes bytes to a text stream, unchanged, and flushes it."""
    buffer = getattr(out, "buffer", None)
    if buffer is None:
        out.write(data.decode("utf-8", "replace"))
        return
    out.flush()
    buffer.write(data)
    buffer.flush()
