"""HTTP to pods, services and nodes through the API server (upstream: ``ProxyREST`` of pod, service and node)."""

from __future__ import annotations

import random
import re
from collections.abc import Awaitable, Callable
from urllib.parse import unquote

from msgspec.structs import replace
from twisted.internet.error import DNSLookupError

from kapi.endpoints.connect.kubelet import Kubelets
from kapi.endpoints.connect.options import admit, refuse_dry_run
from kapi.endpoints.connect.transport import UNVERIFIED, Target, Transport
from kapi.endpoints.scope import RequestScope
from kapi.machinery import status
from kapi.machinery.golang import NumberError, parse_uint
from kapi.machinery.gvk import GroupResource
from kapi.machinery.tree import Object
from kapi.registry import read
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.resources.definition import Lister
from kapi.wire import dial as dialer
from kapi.wire.dial import AddressNotAllowed

_KINDS = {"pods": "PodProxyOptions", "services": "ServiceProxyOptions", "nodes": "NodeProxyOptions"}
_ENDPOINTS, _PODS = GroupResource("", "endpoints"), GroupResource("", "pods")
_NUMBER = re.compile(r"[+-]?[0-9]{1,18}\Z", re.ASCII).match
#: of a logical cluster, too
_is_proxied = re.compile(
    rb"(?:/clusters/[^/?]+)?/api/v1/(?:namespaces/[^/?]+/(?:pods|services)|nodes)/[^/?]+/proxy(?:[/?]|\Z)"
).match


def is_proxied(uri: bytes) -> bool:
    """Whether a request target belongs to a proxy subresource."""
    return uri.find(b"/proxy") >= 0 and _is_proxied(uri) is not None


def split_name(text: str, what: str) -> tuple[str, str, str]:
    """(scheme, name, port) of ``name``, ``name:port`` or ``https:name:port``.  Raises BadRequest."""
    parts = text.split(":")
    if len(parts) == 1:
        parts = ["", text, ""]
    elif len(parts) == 2:
        parts = ["", *parts]
    scheme, name, port = (*parts, "", "", "")[:3]
    if len(parts) != 3 or not name or scheme not in ("", "http", "https"):
        raise status.bad_request(f'invalid {what} request "{text}"')
    return scheme or "http", name, port


def check_address(text: str) -> str:
    """Returns a pod's address.  Raises BadRequest for loopback and link-local addresses."""
    if not dialer.is_proxyable(text):
        raise status.bad_request("address not allowed")
    return text


class Proxy:
    """Every method of ``pods|services|nodes/NAME/proxy/PATH``."""

    def __init__(self, kubelets: Kubelets, transport: Transport) -> None:
        self._kubelets = kubelets
        self._transport = transport
        self._locate: dict[str, Callable[[RequestScope, str, str], Awaitable[Target]]] = {
            "pods": self._pod,
            "services": self._service,
            "nodes": self._node,
        }

    async def __call__(self, ctx: RequestContext, scope: RequestScope) -> Response:
        info, plural = ctx.info, scope.resource.plural
        assert info is not None
        refuse_dry_run(ctx)
        prefix, path = _split_uri(ctx, 7 if scope.resource.namespaced else 5)
        await admit(ctx, scope, _KINDS[plural], {"path": unquote(path.decode("latin-1"))} if path else {})
        found = await self._locate[plural](scope, info.namespace, info.parts[1])
        if not path and ctx.method in ("GET", "HEAD"):
            query = ctx.http.uri.partition(b"?")[2]
            location = prefix + b"/" + (b"?" + query if query else b"")
            return Response(301, b"", b"", ((b"Location", location),))
        query = ctx.http.uri.partition(b"?")[2]
        return await self._transport.pass_on(ctx, replace(found, path=path or b"/", query=query), prefix)

    async def _pod(self, scope: RequestScope, namespace: str, text: str) -> Target:
        scheme, name, port = split_name(text, "pod")
        pod = (await read.get(scope.store, namespace, name)).object
        if not port:
            ports = [p for container in pod["spec"].get("containers") or () for p in container.get("ports") or ()]
            port = str(ports[0].get("containerPort", "")) if ports else ""
        addresses = (pod.get("status") or {}).get("podIPs") or [{}]
        host = check_address(addresses[0].get("ip", ""))
        return Target(scheme, host, _port(port, scheme), b"", proxied=True)

    async def _service(self, scope: RequestScope, namespace: str, text: str) -> Target:
        scheme, name, port = split_name(text, "service")
        if _NUMBER(port):
            service = (await read.get(scope.store, namespace, name)).object
            ports = [p for p in service["spec"].get("ports") or () if p.get("port") == int(port)]
            if not ports:
                raise status.ServiceUnavailable(f'no service port {int(port)} found for service "{name}"')
            port = ports[0].get("name", "")
        listers = scope.store.environment.listers
        endpoints = listers[_ENDPOINTS].get(namespace, name)
        if endpoints is None:
            raise status.not_found(scope.store.group_resource, name)  # upstream names the requested resource
        if not endpoints.get("subsets"):
            raise status.ServiceUnavailable(f'no endpoints available for service "{name}"')
        pods = listers[_PODS]
        found = [
            (address["ip"], entry["port"])
            for subset in endpoints.get("subsets") or ()
            for entry in subset.get("ports") or ()
            if entry.get("name", "") == port
            for address in subset.get("addresses") or ()
            if _is_of_pod(address, namespace, pods)
        ]
        if not found:
            raise status.ServiceUnavailable(f'no endpoints available for service "{text}"')
        host, number = random.choice(found)
        return Target(scheme, host, number, b"", proxied=True)

    async def _node(self, scope: RequestScope, namespace: str, text: str) -> Target:
        scheme, name, port = split_name(text, "node")
        target = await self._kubelets.target(name, b"")
        try:
            addresses = await self._transport.dialer.proxyable(target.host)
        except AddressNotAllowed as error:
            raise status.bad_request(str(error)) from None
        except DNSLookupError:
            raise status.bad_request(f"lookup {target.host}: no such host") from None
        target = replace(target, proxied=True, addresses=addresses)
        if not port or port == str(target.port):
            return target
        return replace(target, scheme=scheme, port=_port(port, scheme), tls=UNVERIFIED)


def _is_of_pod(address: Object, namespace: str, pods: Lister) -> bool:
    """Whether an endpoint is the address of a pod in the namespace.  Users who may write Endpoints could name any address."""
    target = address.get("targetRef")
    if not target or target.get("namespace", "") != namespace:
        return False
    pod = pods.get(namespace, target.get("name", ""))
    known = ((pod or {}).get("status") or {}).get("podIPs") or ()
    return any(entry.get("ip") == address.get("ip") for entry in known)


def _port(text: str, scheme: str) -> int:
    if not text:
        return 443 if scheme == "https" else 80
    try:
        number = parse_uint(text, 16)
    except NumberError:
        number = 0
    if not number:
        raise status.bad_request(f'invalid port "{text}"')
    return number


def _split_uri(ctx: RequestContext, count: int) -> tuple[bytes, bytes]:
    """The raw path up to ``/proxy``, and the path after it ("" or starting with a slash)."""
    raw = bytes(ctx.http.uri).partition(b"?")[0]
    parts = raw.split(b"/")
    prefix = b"/".join(parts[: count + 1])
    return prefix, raw[len(prefix) :]
