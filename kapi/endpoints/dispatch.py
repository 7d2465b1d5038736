"""Finds the endpoint for a parsed request.

The served resources are in a dictionary, so custom resources can be added and removed at any time.  The methods of a path follow
from the resource's definition alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator

from kapi.codecs.negotiation import check_route
from kapi.endpoints.listing import list_objects
from kapi.endpoints.objects import create_object, delete_collection, delete_object, get_object, update_object
from kapi.endpoints.options import boolean
from kapi.endpoints.patch import patch_object
from kapi.endpoints.scope import RequestScope
from kapi.endpoints.watch import watch_objects
from kapi.machinery import status
from kapi.machinery.checkpoint import engage
from kapi.machinery.gvk import GroupVersion
from kapi.machinery.tree import Object
from kapi.registry.conversion import converting
from kapi.registry.resource_store import ResourceStore
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.resources.definition import Resource, Subresource

Endpoint = Callable[[RequestContext, RequestScope], Awaitable[Response]]

_OBJECT: dict[str, tuple[str, Endpoint]] = {
    "GET": ("get", get_object),
    "PUT": ("update", update_object),
    "PATCH": ("patch", patch_object),
    "DELETE": ("delete", delete_object),
}
_COLLECTION: dict[str, tuple[str, Endpoint]] = {
    "POST": ("create", create_object),
    "DELETE": ("deletecollection", delete_collection),
}
#: the verb that a definition must list for a special endpoint to accept the method
_VERB_OF_METHOD = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
#: further methods of the proxy subresources; discovery lists no verbs for them
_PASSED_ON = frozenset(["HEAD", "OPTIONS"])
#: the endpoints of custom resources, which are found by the verb and not by the method
_BY_VERB: dict[str, Endpoint] = {"list": list_objects, **dict(_OBJECT.values()), **dict(_COLLECTION.values())}


def _warn_deprecated(ctx: RequestContext, resource: Resource) -> None:
    """Warns the client, and annotates the audit event (upstream: ``endpoints/metrics`` MonitorRequest).

    Raises NotAcceptable where the router refuses before.
    """
    if ctx.info is not None and not resource.typed_items:
        check_route(ctx, ctx.info.verb)
    ctx.warn(resource.deprecated)
    ctx.annotations["k8s.io/deprecated"] = "true"
    if resource.removed_in:
        ctx.annotations["k8s.io/removed-release"] = resource.removed_in


class ResourceTable:
    """The resources that one server serves now.  ``handlers`` are for kinds and subresources that are not plain objects."""

    def __init__(self, handlers: dict[str, Endpoint] | None = None, cbor: bool = False) -> None:
        self._scopes: dict[tuple[str, str, str], RequestScope] = {}
        self._subresources: dict[tuple[str, str, str, str], RequestScope] = {}
        self._groups: dict[str, dict[tuple[str, str], RequestScope]] = {}  # group -> (version, plural) -> scope
        self._versions: dict[tuple[str, str], int] = {}  # (group, version) -> number of resources
        self.handlers = handlers if handlers is not None else {}
        self.cbor = cbor  # the feature gate CBORServingAndStorage
        #: called with the group version after a resource of it was added or removed
        self.on_change: list[Callable[[GroupVersion], None]] = []

    def add(self, resource: Resource, store: ResourceStore | None) -> None:
        """Adds or replaces a resource (one version of it); ``store`` is None for kinds that are not stored."""
        key = (resource.group, resource.version, resource.plural)
        scopes = self._groups.setdefault(resource.group, {})
        known = self._scopes.pop(key, None)
        if known is None:
            self._versions[key[:2]] = self._versions.get(key[:2], 0) + 1
        else:
            del scopes[key[1:]]
            for sub in known.resource.subresources:
                del self._subresources[(*key, sub.name)]
        scopes[key[1:]] = self._scopes[key] = RequestScope(resource, store)  # type: ignore[arg-type]
        for sub in resource.subresources:
            self._subresources[(*key, sub.name)] = RequestScope(resource, store, sub)  # type: ignore[arg-type]
        self._notify(resource.group_version)

    def remove(self, group: str, version: str, plural: str) -> None:
        """Removes a resource (one version of it)."""
        scope = self._scopes.pop((group, version, plural), None)
        if scope is None:
            return
        for sub in scope.resource.subresources:
            del self._subresources[group, version, plural, sub.name]
        del self._groups[group][version, plural]
        if not self._groups[group]:
            del self._groups[group]
        self._versions[group, version] -= 1
        if not self._versions[group, version]:
            del self._versions[group, version]
        self._notify(GroupVersion(group, version))

    def _notify(self, group_version: GroupVersion) -> None:
        for listener in self.on_change:
            listener(group_version)

    def scope(self, group: str, version: str, plural: str, subresource: str = "") -> RequestScope | None:
        if subresource:
            return self._subresources.get((group, version, plural, subresource))
        return self._scopes.get((group, version, plural))

    def scopes(self) -> Iterable[RequestScope]:
        return self._scopes.values()

    def resources(self) -> Iterable[Resource]:
        """The definitions of all served resources."""
        return (scope.resource for scope in self._scopes.values())

    def groups(self) -> Iterable[str]:
        """The names of the groups with resources."""
        return self._groups

    def group_versions(self) -> list[GroupVersion]:
        return [GroupVersion(*pair) for pair in self._versions]

    def rows(self, group: str) -> Iterator[Resource]:
        """The resources of a group, in all its versions."""
        return (scope.resource for scope in self._groups.get(group, {}).values())

    def serves_group_version(self, group: str, version: str) -> bool:
        return (group, version) in self._versions

    def handle(self, ctx: RequestContext) -> Awaitable[Response] | None:
        """The response, or None when this table does not serve the resource.  Raises MethodNotAllowed and NotFound."""
        info = ctx.info
        assert info is not None
        scope = self._scopes.get((info.group, info.version, info.resource))
        if scope is None or (not info.group and ctx.path.startswith("/apis")):  # /apis//v1 is no path of the core group
            return None
        resource = scope.resource
        if resource.typed_items:
            ctx.no_protobuf = True
            return self._handle_custom(ctx, scope)
        if info.verb == "proxy":  # the deprecated prefix /proxy is still authorized, but not served any more
            raise status.no_such_resource()
        if info.deprecated_watch and (info.subresource or resource.handler):
            raise status.no_such_resource()  # authorized as a watch, whatever the method: nothing else may be served
        if info.subresource:
            return self._handle_subresource(ctx, info.subresource)
        is_namespace = info.resource == "namespaces" and not info.group
        if info.namespace and not resource.namespaced and not is_namespace:
            raise status.no_such_resource()
        if len(info.parts) > 2:
            raise status.no_such_resource()
        endpoint = self._endpoint(ctx, scope)
        ctx.cbor = self.cbor  # earlier errors are not encoded by the serializer of the resource's group upstream
        if resource.deprecated:
            _warn_deprecated(ctx, resource)
        return endpoint(ctx, scope)

    def _endpoint(self, ctx: RequestContext, scope: RequestScope) -> Endpoint:
        info, resource, method = ctx.info, scope.resource, ctx.method
        assert info is not None
        verbs = resource.verbs
        if resource.handler:
            if len(info.parts) > 1 and "get" not in verbs:
                raise status.no_such_resource()  # a kind that can only be created has no objects
            if _VERB_OF_METHOD.get(method) not in verbs:
                raise status.method_not_allowed()
            special = self.handlers.get(resource.handler)
            if special is None:
                raise status.no_such_resource()
            return special
        everywhere = resource.namespaced and not info.namespace
        if info.deprecated_watch:
            if method != "GET" or "watch" not in verbs:
                raise status.method_not_allowed()
            return watch_objects
        if len(info.parts) > 1:
            if everywhere:
                raise status.no_such_resource()
            verb, endpoint = _OBJECT.get(method, ("", None))
        elif method == "GET":
            if "list" not in verbs:
                raise status.method_not_allowed()
            return watch_objects if boolean(ctx, "watch") else list_objects
        else:
            verb, endpoint = _COLLECTION.get(method, ("", None))
            if everywhere:
                raise status.method_not_allowed()
        if endpoint is None or verb not in verbs:
            raise status.method_not_allowed()
        return endpoint

    def _handle_custom(self, ctx: RequestContext, scope: RequestScope) -> Awaitable[Response] | None:
        """Handles a custom resource; with a conversion webhook the handler runs again after the webhook has answered."""
        engage()  # its schema and defaults may be large
        converter = scope.resource.converter
        if converter is None:
            return self._custom(ctx, scope)
        first = self._custom(ctx, scope)
        if first is None:
            return None
        attempts: list[Awaitable[Response]] = [first]

        async def run() -> Response:
            attempt = attempts.pop() if attempts else self._custom(ctx, scope)
            assert attempt is not None
            return await attempt

        def related() -> list[Object]:
            info = ctx.info
            assert info is not None
            if len(info.parts) > 1:
                return []
            return scope.unconverted(entry.object for entry in scope.store.cache.list(info.namespace, None)[0])

        return converting(converter, run, related if ctx.method in ("GET", "DELETE") else tuple)

    def _custom(self, ctx: RequestContext, scope: RequestScope) -> Awaitable[Response] | None:
        """Handles a custom resource.  Upstream has no routes for these, so some errors differ from those of built-in ones."""
        info, resource = ctx.info, scope.resource
        assert info is not None
        verb = info.verb
        if resource.namespaced != bool(info.namespace) and (info.namespace or verb not in ("list", "watch")):
            return None
        if resource.deprecated:
            _warn_deprecated(ctx, resource)
        if info.subresource:
            sub_scope = self._subresources.get((info.group, info.version, info.resource, info.subresource))
            if sub_scope is None or sub_scope.subresource is None:
                raise status.not_found(resource.group_resource, info.name)
            if verb not in sub_scope.subresource.verbs:
                raise status.method_not_supported(resource.group_resource, verb)
            ctx.cbor = self.cbor
            handler = sub_scope.subresource.handler
            return self.handlers[handler](ctx, sub_scope) if handler else _BY_VERB[verb](ctx, sub_scope)
        if verb not in resource.verbs:
            raise status.method_not_supported(resource.group_resource, verb)
        ctx.cbor = self.cbor
        if verb == "watch" or (verb == "list" and boolean(ctx, "watch")):
            return watch_objects(ctx, scope)
        return _BY_VERB[verb](ctx, scope)

    def _handle_subresource(self, ctx: RequestContext, name: str) -> Awaitable[Response]:
        info = ctx.info
        assert info is not None
        scope = self._subresources.get((info.group, info.version, info.resource, name))
        if scope is None or scope.subresource is None:
            raise status.no_such_resource()
        sub: Subresource = scope.subresource
        if scope.resource.namespaced and not info.namespace:
            raise status.no_such_resource()
        if len(info.parts) > 3 and sub.handler != "proxy":
            raise status.no_such_resource()
        if sub.handler:
            passed_on = sub.handler == "proxy" and ctx.method in _PASSED_ON
            if _VERB_OF_METHOD.get(ctx.method) not in sub.verbs and not passed_on:
                raise status.method_not_allowed()
            special = self.handlers.get(sub.handler)
            if special is None:
                raise status.no_such_resource()
            ctx.cbor = self.cbor
            return special(ctx, scope)
        verb, endpoint = _OBJECT.get(ctx.method, ("", None))
        if endpoint is None or verb not in sub.verbs:
            raise status.method_not_allowed()
        if scope.resource.deprecated:
            _warn_deprecated(ctx, scope.resource)
        ctx.cbor = self.cbor
        return endpoint(ctx, scope)
