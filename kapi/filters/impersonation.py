"""Impersonation: acts as another user, if authorized (upstream: apiserver ``filters/impersonation``, KEP-5284).

Constrained impersonation makes two checks: may the requestor impersonate this kind of user at all, and may it do so for this
verb on this resource?  The plain ``impersonate`` verb is tried last and covers everything.  When every mode is refused, the
error of the first applicable mode is reported.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable
from dataclasses import replace

import msgspec

from kapi.authentication.certificates import unescape_key
from kapi.authentication.service_account.names import NODE_NAME
from kapi.authentication.service_account.names import groups as account_groups
from kapi.authentication.service_account.names import split_username as service_account_name
from kapi.authorization.forbidden import refused
from kapi.authorization.interface import Attributes, Authorizer, Decision, decided
from kapi.authorization.node.references import NODE_PREFIX, NODES_GROUP
from kapi.authorization.rbac.policy import quoted_list
from kapi.filters.authorization import attributes_of
from kapi.filters.chain import Filter
from kapi.filters.metrics import IdentityMeter
from kapi.machinery import status
from kapi.machinery.field import Path
from kapi.machinery.golang import aggregate, quote
from kapi.machinery.names import dns_subdomain
from kapi.request.context import RequestContext
from kapi.request.headers import (
    all_headers,
    any_header_with_prefix,
    first_header,
    headers_with_prefix,
    remove_header,
    remove_headers_with_prefix,
)
from kapi.request.user import ALL_AUTHENTICATED, ALL_UNAUTHENTICATED, ANONYMOUS, SYSTEM_MASTERS, UserInfo
from kapi.resources.shared.paths import domain_prefixed_path

_USER, _UID, _GROUP, _EXTRA = "Impersonate-User", "Impersonate-Uid", "Impersonate-Group", "Impersonate-Extra-"
_AUTHENTICATION = "authentication.k8s.io"
_MIN_WILDCARD_CHECKED = 4  # from this many groups or extras on, one check for "*" comes first
_CACHE_SIZE = 10_000


def impersonation(authorizer: Authorizer, *, constrained: bool = True, meter: IdentityMeter | None = None) -> Filter:
    """Sets ``ctx.user`` to the impersonated user and ``ctx.original_user`` to the real one.  Raises Forbidden."""
    measured = meter or IdentityMeter()
    modes = _Modes(authorizer, constrained, measured)

    async def check(ctx: RequestContext, requested: UserInfo) -> None:
        requestor, started = ctx.user, time.perf_counter()
        assert requestor is not None
        try:
            user, constraint = await modes.impersonate(requested, attributes_of(ctx))
        except status.StatusError:
            measured.impersonated("", False, time.perf_counter() - started)
            raise
        finally:
            ctx.add_latency("impersonation", time.perf_counter() - started)
        measured.impersonated(constraint.partition(":")[2] or "legacy", True, time.perf_counter() - started)
        ctx.original_user, ctx.user = requestor, user
        ctx.impersonation_constraint = constraint

    def filter(ctx: RequestContext) -> None | Awaitable[None]:
        if not any_header_with_prefix(ctx, b"Impersonate-"):
            return None
        requested = requested_user(ctx)
        return None if requested is None else check(ctx, requested)

    return filter


def requested_user(ctx: RequestContext) -> UserInfo | None:
    """The user that the headers name; removes the headers.  Raises BadRequest when they name a uid or groups without a user."""
    name = first_header(ctx, _USER)
    uid = first_header(ctx, _UID)
    groups = tuple(all_headers(ctx, _GROUP))
    extra: dict[str, tuple[str, ...]] = {}
    for escaped, values in headers_with_prefix(ctx, _EXTRA):
        key = unescape_key(escaped)
        extra[key] = extra.get(key, ()) + tuple(values)
    if not name:
        if uid or groups or extra:
            raise status.bad_request(f"requested {_go_syntax(uid, groups, extra)} without impersonating a user name")
        return None
    for header in (_USER, _UID, _GROUP):
        remove_header(ctx, header)
    remove_headers_with_prefix(ctx, _EXTRA)
    return UserInfo(name, uid=uid, groups=groups, extra=extra)


def _go_syntax(uid: str, groups: tuple[str, ...], extra: dict[str, tuple[str, ...]]) -> str:
    def strings(values: tuple[str, ...]) -> str:
        return "[]string{" + ", ".join(quote(value) for value in values) + "}" if values else "[]string(nil)"

    keys = "map[string][]string(nil)"
    if extra:
        keys = "map[string][]string{" + ", ".join(f"{quote(k)}:{strings(extra[k])}" for k in sorted(extra)) + "}"
    return f'&user.DefaultInfo{{Name:"", UID:{quote(uid)}, Groups:{strings(groups)}, Extra:{keys}}}'


def _node_name(username: str) -> str:
    name = username[len(NODE_PREFIX) :] if username.startswith(NODE_PREFIX) else ""
    return "" if not name or dns_subdomain(name) else name


def _only_name(requested: UserInfo) -> bool:
    return not (requested.uid or requested.groups or requested.extra)


def _associated(requestor: UserInfo, requested: UserInfo) -> bool:
    node = _node_name(requested.name)
    return bool(node and service_account_name(requestor.name) is not None and requestor.extra.get(NODE_NAME) == (node,))


class _Modes:
    """The modes of impersonation, in upstream's order; the mode that last succeeded for a requestor is tried first."""

    def __init__(self, authorizer: Authorizer, constrained: bool, meter: IdentityMeter) -> None:
        self.authorizer = authorizer
        self.meter = meter
        self.names = ("associated-node", "arbitrary-node", "serviceaccount", "user-info", "") if constrained else ("",)
        self._last: dict[str, str] = {}

    async def impersonate(self, requested: UserInfo, attributes: Attributes) -> tuple[UserInfo, str]:
        requestor = attributes.user
        last = self._last.get(requestor.name)
        order = self.names if last is None else (last, *(name for name in self.names if name != last))
        first: status.StatusError | None = None
        for mode in order:
            if not self._applies(mode, requested, requestor):
                continue
            try:
                user = await self._try(mode, requested, attributes)
            except status.StatusError as error:
                first = first or error
                continue
            if mode != last:
                if len(self._last) >= _CACHE_SIZE:
                    self._last.clear()
                self._last[requestor.name] = mode
            return user, f"impersonate:{mode}" if mode else ""
        raise first or status.internal("all impersonation modes failed")

    @staticmethod
    def _applies(mode: str, requested: UserInfo, requestor: UserInfo) -> bool:
        if mode == "associated-node":
            return _only_name(requested) and _associated(requestor, requested)
        if mode == "arbitrary-node":
            return _only_name(requested) and bool(_node_name(requested.name))
        if mode == "serviceaccount":
            return _only_name(requested) and service_account_name(requested.name) is not None
        if mode == "user-info":
            return not _node_name(requested.name) and service_account_name(requested.name) is None
        return True

    async def _try(self, mode: str, requested: UserInfo, attributes: Attributes) -> UserInfo:
        requestor = attributes.user
        if mode == "associated-node":
            keys = tuple(sorted(requestor.extra))
            requestor = replace(requestor, extra={"authentication.kubernetes.io/associated-node-keys": keys})
        if mode:
            verb = f"impersonate-on:{mode}:{attributes.verb}"
            await self._require(msgspec.structs.replace(attributes, user=requestor, verb=verb))
        groups = await self._check_name(mode, requested, requestor)
        verb = f"impersonate:{mode}" if mode else "impersonate"
        if requested.uid:
            await self._require(_ask(requestor, _AUTHENTICATION, verb, "uids", requested.uid))
        await self._check_groups(mode, verb, requested.groups, requestor)
        await self._check_extra(mode, verb, requested.extra, requestor)
        if requested.name == ANONYMOUS:
            default = ALL_UNAUTHENTICATED
        else:
            default = "" if ALL_UNAUTHENTICATED in groups else ALL_AUTHENTICATED
        if default and default not in groups:
            groups = (*groups, default)
        return replace(requested, groups=groups)

    async def _check_name(self, mode: str, requested: UserInfo, requestor: UserInfo) -> tuple[str, ...]:
        """Checks the name.  Returns the groups of the impersonated user that its name determines."""
        verb = f"impersonate:{mode}" if mode else "impersonate"
        question = _ask(requestor, _AUTHENTICATION if mode else "", verb, "users", requested.name)
        groups = requested.groups
        node = _node_name(requested.name) if mode else ""
        account = service_account_name(requested.name)
        if node:
            question.resource, question.name = "nodes", "*" if mode == "associated-node" else node
            groups = (NODES_GROUP,)
        elif account is not None:
            question.resource = "serviceaccounts"
            question.namespace, question.name = account
            if mode and requested.groups:
                text = (
                    f"when impersonating a service account, cannot impersonate groups {quoted_list(requested.groups)}"
                )
                raise refused(question, text)
            if not requested.groups:
                groups = account_groups(account[0])
        await self._require(question)
        return groups

    async def _check_groups(self, mode: str, verb: str, groups: tuple[str, ...], requestor: UserInfo) -> None:
        if not groups:
            return
        question = _ask(requestor, _AUTHENTICATION if mode else "", verb, "groups", "")
        if mode:
            if "" in groups:
                raise refused(question, "impersonating the empty string group is not allowed")
            if SYSTEM_MASTERS in groups:
                question.name = SYSTEM_MASTERS
                raise refused(question, "impersonating the system:masters group is not allowed")
            if len(groups) >= _MIN_WILDCARD_CHECKED and await self._allowed(
                msgspec.structs.replace(question, name="*")
            ):
                return
        for group in groups:
            await self._require(msgspec.structs.replace(question, name=group))

    async def _check_extra(self, mode: str, verb: str, extra: dict[str, tuple[str, ...]], requestor: UserInfo) -> None:
        if not extra:
            return
        question = _ask(requestor, _AUTHENTICATION, verb, "userextras", "")
        if mode:
            problem = next((text for text in (_extra_problem(key, extra[key]) for key in extra) if text), "")
            if problem:
                raise refused(question, problem)
            many = sum(map(len, extra.values())) >= _MIN_WILDCARD_CHECKED
            if many and await self._allowed(msgspec.structs.replace(question, subresource="*", name="*")):
                return
        for key, values in extra.items():
            for value in values:
                await self._require(msgspec.structs.replace(question, subresource=key, name=value))

    async def _require(self, question: Attributes) -> None:
        started = time.perf_counter()
        verdict = await decided(self.authorizer, question)
        mode = question.verb.split(":")[1] if ":" in question.verb else "legacy"
        self.meter.checked(mode, verdict.decision is Decision.ALLOW, time.perf_counter() - started)
        if verdict.decision is not Decision.ALLOW:
            why = (
                f"{verdict.error}: {verdict.reason}"
                if verdict.error and verdict.reason
                else (verdict.error or verdict.reason)
            )
            raise refused(question, why)

    async def _allowed(self, question: Attributes) -> bool:
        try:
            await self._require(question)
        except status.StatusError:
            return False
        return True


def _ask(requestor: UserInfo, group: str, verb: str, resource: str, name: str) -> Attributes:
    return Attributes(user=requestor, verb=verb, group=group, version="v1", resource=resource, name=name)


def _extra_problem(key: str, values: tuple[str, ...]) -> str:
    """The reason why a constrained impersonation may not set this extra; "" when it may."""
    if not key:
        return "impersonating the empty string key in extra is not allowed"
    problems = aggregate(str(error) for error in domain_prefixed_path(key, Path("extra").child("key")))
    if problems:
        return f"impersonating an invalid key in extra is not allowed: {problems}"
    if key != key.lower():
        return f"impersonating a non-lowercase key in extra is not allowed: {quote(key)}"
    if not values:
        return "impersonating empty values in extra is not allowed"
    if "" in values:
        return "impersonating the empty string value in extra is not allowed"
    return ""
