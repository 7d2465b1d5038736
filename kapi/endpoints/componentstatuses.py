"""ComponentStatus: every read probes the components (upstream: ``registry/core/componentstatus``)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from twisted.internet.defer import CancelledError, Deferred, gatherResults

from kapi.codecs.negotiation import output_media_type
from kapi.endpoints import transform
from kapi.endpoints.connect.transport import Target, beginning
from kapi.endpoints.encoding import respond_object, respond_tree
from kapi.endpoints.listing import not_a_single, strip_type
from kapi.endpoints.options import boolean, list_options
from kapi.endpoints.scope import RequestScope, path_name
from kapi.endpoints.selection import predicate_of
from kapi.machinery import status
from kapi.machinery.gvk import GroupResource
from kapi.machinery.tree import Object
from kapi.process.reactor import Reactor
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.store.interface import Store
from kapi.wire.dial import Dialer
from kapi.wire.network_errors import describe

#: asks one component: (healthy, message)
Probe = Callable[[], Awaitable[tuple[bool, str]]]
_TIMEOUT = 20.0  # seconds
_SCHEDULER, _CONTROLLER_MANAGER = 10259, 10257


def probe_https(port: int, reactor: Reactor) -> Probe:
    """Probes ``https://127.0.0.1:PORT/healthz`` without verifying the certificate, since components use self-signed ones."""
    target = Target("https", "127.0.0.1", port, b"/healthz")

    async def read() -> tuple[int, str]:
        pool = target.pool(Dialer(reactor, _TIMEOUT))
        answer = await pool.send(b"GET", target.uri, [(b"Host", target.netloc)])
        return answer.code, (await beginning(answer, 1024)).decode("utf-8", "replace")

    async def probe() -> tuple[bool, str]:
        url = f"https://127.0.0.1:{port}/healthz"
        try:
            code, text = await Deferred.fromCoroutine(read()).addTimeout(_TIMEOUT, reactor)
        except CancelledError:
            raise
        except Exception as error:
            return False, f'Get "{url}": {describe(error, "127.0.0.1", port)}'
        return code == 200, text

    return probe


def probe_store(store: Store) -> Probe:
    async def probe() -> tuple[bool, str]:
        return (True, "ok") if store.available else (False, "the store does not answer")

    return probe


class ComponentStatuses:
    """GET of one or all; the stores are named ``etcd-N``, as clients expect."""

    def __init__(self, reactor: Reactor, stores: Sequence[Store]) -> None:
        self._probes: Mapping[str, Probe] = {
            "scheduler": probe_https(_SCHEDULER, reactor),
            "controller-manager": probe_https(_CONTROLLER_MANAGER, reactor),
            **{f"etcd-{number}": probe_store(store) for number, store in enumerate(stores)},
        }

    async def __call__(self, ctx: RequestContext, scope: RequestScope) -> Response:
        name = path_name(ctx)
        if not name:
            return await self._list(ctx, scope)
        media = output_media_type(ctx, "get")
        if name not in self._probes:
            raise status.not_found(GroupResource("", "componentstatus"), name)
        return respond_object(ctx, scope, 200, await self._ask(name), None, media)

    async def _list(self, ctx: RequestContext, scope: RequestScope) -> Response:
        if boolean(ctx, "watch"):
            raise status.method_not_supported(GroupResource("", "componentstatuses"), "watch")
        media = output_media_type(ctx, "list")
        options = list_options(ctx)
        predicate = predicate_of(scope, options)
        if media.as_kind == "PartialObjectMetadata":
            raise not_a_single(scope.resource, media)
        asking = [Deferred.fromCoroutine(self._ask(name)) for name in self._probes]
        found = [
            obj
            for obj in await gatherResults(asking, consumeErrors=True)
            if predicate is None
            or predicate.matches({}, {"metadata.name": obj["metadata"]["name"], "metadata.namespace": ""})
        ]
        if media.as_kind == "Table":
            include = ctx.first("includeObject", "Metadata")
            tree = transform.table(scope.resource, found, {}, now=scope.now, version=media.as_version, include=include)
        elif media.as_kind:
            tree = transform.partial_list(scope.resource, found, {}, media.as_version)
        else:
            items = [strip_type(obj) for obj in found]
            tree = {"kind": "ComponentStatusList", "apiVersion": "v1", "metadata": {}, "items": items}
        return respond_tree(ctx, 200, tree, media)

    async def _ask(self, name: str) -> Object:
        healthy, message = await self._probes[name]()
        condition = {"type": "Healthy", "status": "True" if healthy else "False", "message": message}
        return {"kind": "ComponentStatus", "apiVersion": "v1", "metadata": {"name": name}, "conditions": [condition]}
