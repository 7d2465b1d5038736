"""Decides whether a request may wake a logical cluster: by a known user, or allowed to anonymous users.

Waking costs milliseconds and memory.  So credentials are checked first, against the ServiceAccounts, Secrets and RBAC objects in
the cluster's store, of which only a few are decoded.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Mapping
from dataclasses import replace
from inspect import isawaitable

import msgspec
import orjson

from kapi.assembly.config import CompletedConfig
from kapi.assembly.filters import build_handler_chain
from kapi.assembly.identity import Identity
from kapi.authentication.build import build_authentication
from kapi.authentication.interface import AuthenticationError, Authenticator, RequestAnswer
from kapi.authentication.service_account.metrics import TokenMeter
from kapi.authorization.build import build_authorization
from kapi.authorization.interface import Decision
from kapi.authorization.rbac.index import GROUP, PolicyIndex
from kapi.authorization.union import UnionAuthorizer
from kapi.filters.authorization import attributes_of
from kapi.filters.chain import Filter, FilterChain
from kapi.filters.request_info import request_info
from kapi.machinery import status
from kapi.machinery.gvk import GroupResource
from kapi.machinery.selectors import with_labels
from kapi.machinery.tree import Object
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.request.user import ALL_UNAUTHENTICATED, ANONYMOUS, UserInfo
from kapi.resources.definition import Lister
from kapi.store.memory import MemoryStore
from kapi.testbed.moved_clock import MovedClock

_ANONYMOUS_NAMES = (ANONYMOUS.encode(), ALL_UNAUTHENTICATED.encode())
_BINDINGS = (f"{GROUP}/clusterrolebindings/", f"{GROUP}/rolebindings/")


class StoredLister:
    """A lister of one resource that reads the store itself, since a sleeping cluster has no caches."""

    def __init__(self, store: MemoryStore, prefix: str) -> None:
        self._store = store
        self._prefix = prefix

    def get(self, namespace: str, name: str) -> Object | None:
        data = self._store.data_of(f"{self._prefix}{namespace}/{name}")
        return None if data is None else _tree(data)

    def list(self, namespace: str = "") -> list[Object]:
        start = f"{self._prefix}{namespace}/" if namespace else self._prefix
        return [_tree(data) for _, data in self._store.matching(start)]

    def labelled(self, labels: Mapping[str, str], namespace: str = "") -> builtins.list[Object]:
        return with_labels(labels, self.list(namespace))

    @property
    def changes(self) -> int:
        return self._store.newest


class StoredListers(dict[GroupResource, Lister]):
    """Listers by resource, made on access."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__()
        self._store = store

    def __missing__(self, key: GroupResource) -> Lister:
        lister = self[key] = StoredLister(self._store, f"{key.group or 'core'}/{key.resource}/")
        return lister


class KnownUserFirst:
    """Accepts the user that was authenticated before the cluster woke: the request has no credentials any more."""

    def __init__(self, otherwise: Authenticator) -> None:
        self._otherwise = otherwise

    def authenticate(self, ctx: RequestContext) -> RequestAnswer:
        return ctx.user if ctx.user is not None else self._otherwise.authenticate(ctx)  # type: ignore[return-value]


class _OnlyKnownUser:
    """Accepts only a user that was authenticated before."""

    def authenticate(self, ctx: RequestContext) -> RequestAnswer:
        if ctx.user is None:
            raise AuthenticationError("refused before the logical cluster was woken")
        return ctx.user


class Gate:
    """Authenticates a request to a sleeping cluster, and checks anonymous ones by its RBAC policy."""

    def __init__(self, config: CompletedConfig, identity: Identity, flow: Filter | None) -> None:
        self._settings, self._authorization = identity.settings, config.authorization.settings
        only_known = replace(identity, requests=_OnlyKnownUser())
        filters = build_handler_chain(config, only_known, UnionAuthorizer(()), flow, lambda *_: True)
        self._refusal = FilterChain(filters, _unreachable)

    async def __call__(self, ctx: RequestContext, store: MemoryStore, clock: MovedClock) -> Response | None:
        """Returns None when the request may wake the cluster, else the refusal.  Raises StatusError."""
        try:
            user = await self._user(ctx, store, clock)
        except AuthenticationError:
            user = None
        ctx.user = user
        if user is None or (user.name == ANONYMOUS and not await self._may(ctx, store)):
            return await self._refuse(ctx)
        return None

    async def _user(self, ctx: RequestContext, store: MemoryStore, clock: MovedClock) -> UserInfo | None:
        settings = msgspec.structs.replace(
            self._settings,
            listers=StoredListers(store),
            mark_used=None,
            clock=clock.time,
            token_meter=TokenMeter(),
            lifetimes=None,
            realm=store.realm,
        )
        answer = build_authentication(settings).requests.authenticate(ctx)
        return await answer if isawaitable(answer) else answer

    async def _may(self, ctx: RequestContext, store: MemoryStore) -> bool:
        """Whether anonymous users may make this request in the cluster."""
        request_info(ctx)
        index = PolicyIndex()
        for kind, obj in _anonymous_policy(store):
            (index.on_binding if kind else index.on_role)("ADDED", obj)
        answer = build_authorization(self._authorization, index).authorizer.authorize(attributes_of(ctx))
        verdict = await answer if isawaitable(answer) else answer
        return verdict.decision is Decision.ALLOW

    async def _refuse(self, ctx: RequestContext) -> Response:
        answer = self._refusal.handle(ctx)
        return await answer if isawaitable(answer) else answer


def _anonymous_policy(store: MemoryStore) -> Iterator[tuple[bool, Object]]:
    """(True, binding) for the bindings of anonymous users, and (False, role) for their roles."""
    for prefix in _BINDINGS:
        for _, data in store.matching(prefix):
            if any(name in data for name in _ANONYMOUS_NAMES):
                binding = _tree(data)
                ref, namespace = binding["roleRef"], binding["metadata"].get("namespace", "")
                place = (
                    f"clusterroles//{ref['name']}"
                    if ref["kind"] == "ClusterRole"
                    else f"roles/{namespace}/{ref['name']}"
                )
                role = store.data_of(f"{GROUP}/{place}")
                yield True, binding
                if role is not None:
                    yield False, _tree(role)


def _tree(data: bytes) -> Object:
    tree: Object = orjson.loads(data)
    return tree


def _unreachable(ctx: RequestContext) -> Response:
    raise status.unauthorized()
