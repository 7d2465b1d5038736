"""The ResourceQuota admission plugin: charges quotas before an object is stored.

Races are excluded by compare-and-swap: the usage of a request is added to the quota's status with the resourceVersion that was
read, and after a conflict the quota is read and checked again.  So two requests, in one process or in several, never both take
the last unit.  The charge and the object are two writes.  When a recount between them drops the charge, the store refuses the
object (``kapi.store.interface`` Charge).  Waiting requests of one namespace are charged with one write.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Sequence
from typing import NoReturn

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from kapi.admission.initializer import Initializer
from kapi.admission.interface import CREATE, UPDATE, Attributes, Plugin, denied
from kapi.admission.quota import lists
from kapi.admission.quota.evaluators import (
    DEVICE_CLAIMS,
    Devices,
    Evaluator,
    Requirement,
    evaluator_of,
    requirements_of,
)
from kapi.admission.quota.lists import Amounts
from kapi.machinery import golang, tree
from kapi.machinery.checkpoint import commit
from kapi.machinery.field import Path, required
from kapi.machinery.gvk import GroupResource
from kapi.machinery.sorting import ordered
from kapi.machinery.status import Conflict, NotFound, StatusError, internal
from kapi.machinery.tree import Object, Tree
from kapi.store.errors import StoreError

#: a resource that needs a quota by configuration: {"apiGroup", "resource", "matchContains", "matchScopes"}
Limited = Object
_MAX_RETRIES = 10
_MAX_NEWEST = 10_000  # quotas with a remembered last write
_TIMEOUT_SECONDS = 10.0  # how long a request waits for its turn
_IGNORED = frozenset(
    {
        GroupResource("", "bindings"),
        GroupResource("", "componentstatuses"),
        GroupResource("", "events"),
        GroupResource("events.k8s.io", "events"),
        GroupResource("authentication.k8s.io", "tokenreviews"),
        GroupResource("authentication.k8s.io", "selfsubjectreviews"),
        GroupResource("authorization.k8s.io", "subjectaccessreviews"),
        GroupResource("authorization.k8s.io", "selfsubjectaccessreviews"),
        GroupResource("authorization.k8s.io", "localsubjectaccessreviews"),
        GroupResource("authorization.k8s.io", "selfsubjectrulesreviews"),
        GroupResource("metrics.k8s.io", "pods"),
        GroupResource("metrics.k8s.io", "nodes"),
        GroupResource("custom.metrics.k8s.io", "*"),
        GroupResource("external.metrics.k8s.io", "*"),
    }
)


def hard(quota: Object) -> Amounts:
    return (quota.get("status") or {}).get("hard") or {}


def used(quota: Object) -> Amounts:
    return (quota.get("status") or {}).get("used") or {}


def _uncounted(quota: Object) -> set[str]:
    """The limits that are not in the status yet."""
    return set((quota.get("spec") or {}).get("hard") or {}) - set(hard(quota))


def check(
    quotas: Sequence[Object], attributes: Attributes, evaluator: Evaluator, limited: Sequence[Limited], now: float
) -> list[Object]:
    """The quotas with the request's usage added; unchanged quotas are the same objects.

    Raises Forbidden when a quota is exceeded, unknown or missing.
    """
    quotas = list(quotas)
    obj = attributes.obj
    if obj is None or not evaluator.handles(attributes):
        return quotas
    limited_scopes = [found for entry in limited for found in evaluator.matching(entry.get("matchScopes") or (), obj)]
    limited_names = _limited_names(attributes, evaluator, limited, obj, now)

    interesting: list[int] = []
    restricted: set[str] = set()
    covered_scopes: set[str] = set()
    for i, quota in enumerate(quotas):
        requirements = requirements_of(quota)
        matched = evaluator.matching(requirements, obj)
        covered_scopes.update(requirement["scopeName"] for requirement in matched)
        names = evaluator.concerns(hard(quota))
        if not names or len(matched) != len(requirements):
            continue
        lacking = evaluator.missing(names, obj)
        if lacking:
            raise denied(attributes, f"failed quota: {quota['metadata']['name']}: {lacking}")
        if any(name not in used(quota) for name in names):
            shown = ",".join(ordered(names))
            raise denied(attributes, f"status unknown for quota: {quota['metadata']['name']}, resources: {shown}")
        interesting.append(i)
        restricted.update(names)

    usage = evaluator.usage(obj, now)
    below_zero = lists.negative(usage)
    if below_zero:
        raise denied(attributes, f"quota usage is negative for resource(s): {','.join(below_zero)}")
    deltas, uncovered = _deltas(quotas, interesting, attributes, evaluator, usage, now)
    if interesting and not deltas or not interesting and not uncovered:
        return quotas
    lacking_names = ordered(limited_names - restricted)
    if lacking_names:
        raise denied(attributes, f"insufficient quota to consume: {','.join(lacking_names)}")
    lacking_scopes = [scope for scope in limited_scopes if scope.get("scopeName") not in covered_scopes]
    if lacking_scopes:
        raise StatusError(f"insufficient quota to match these scopes: {_show_scopes(lacking_scopes)}")
    for i, delta in deltas.items():
        quotas[i] = _charged(quotas[i], delta, attributes)
    return quotas


def _limited_names(
    attributes: Attributes, evaluator: Evaluator, limited: Sequence[Limited], obj: Object, now: float
) -> set[str]:
    group_resource = attributes.resource.group_resource
    entries = [
        entry
        for entry in limited
        if (entry.get("apiGroup") or "", entry.get("resource") or "") == tuple(group_resource)
    ]
    if not entries:
        return set()
    charge = lists.without_zeros(evaluator.usage(obj, now))
    return {
        name for entry in entries for name in charge if any(part in name for part in entry.get("matchContains") or ())
    }


def _deltas(
    quotas: Sequence[Object],
    interesting: Sequence[int],
    attributes: Attributes,
    evaluator: Evaluator,
    usage: Amounts,
    now: float,
) -> tuple[dict[int, Amounts], Amounts]:
    """The charge of each matching quota, and the charges that need a quota."""
    deltas = {i: usage for i in interesting}
    uncovered: Amounts = {} if interesting or attributes.operation != CREATE else usage
    if attributes.operation == UPDATE:
        old = attributes.old
        if old is None:
            raise denied(attributes, "unable to get previous usage since prior version of object was not found")
        if old["metadata"].get("resourceVersion"):
            more = lists.growth(usage, evaluator.usage(old, now))
            uncovered = {} if interesting else more
            for i in interesting:
                requirements = requirements_of(quotas[i])
                if len(evaluator.matching(requirements, old)) == len(requirements):
                    deltas[i] = more
        elif not interesting:
            uncovered = usage
    trimmed = {i: lists.without_zeros(delta) for i, delta in deltas.items()}
    return {i: delta for i, delta in trimmed.items() if delta}, lists.without_zeros(uncovered)


def _charged(quota: Object, delta: Amounts, attributes: Attributes) -> Object:
    """The quota with a request's usage added.  Raises Forbidden when that exceeds a limit."""
    limits, before = hard(quota), used(quota)
    requested = lists.mask(delta, limits)
    after = lists.add(before, requested)
    if attributes.subresource != "status":
        exceeded = lists.exceeding(lists.mask(after, requested), limits)
        if exceeded:
            raise denied(
                attributes,
                f"exceeded quota: {quota['metadata']['name']}, requested: {lists.show(lists.mask(requested, exceeded))}, "
                f"used: {lists.show(lists.mask(before, exceeded))}, limited: {lists.show(lists.mask(limits, exceeded))}",
            )
    return {**quota, "status": {**(quota.get("status") or {}), "used": after}}


def _show_scopes(scopes: Sequence[Requirement]) -> str:
    return (
        "["
        + " ".join(
            "{"
            + f"{scope.get('scopeName')} {scope.get('operator')} {golang.value_text(scope.get('values') or [])}"
            + "}"
            for scope in scopes
        )
        + "]"
    )


class _Waiter:
    """A request in the queue of its namespace; ``charged`` are the names of the quotas to charge."""

    __slots__ = ("attributes", "done", "result", "charged")

    def __init__(self, attributes: Attributes) -> None:
        self.attributes = attributes
        self.done: Deferred[None] = Deferred()
        self.result: StatusError | StoreError | None = None
        self.charged: set[str] = set()


class ResourceQuota(Plugin):
    operations = frozenset({CREATE, UPDATE})
    configured = True

    def __init__(self, initializer: Initializer, configuration: Tree) -> None:
        self.initializer = initializer
        self.limited: list[Object] = list((configuration or {}).get("limitedResources") or [])
        root, numbered = Path("limitedResources"), enumerate(self.limited)
        missing = [root.index(i).child("resource") for i, limited in numbered if not limited.get("resource")]
        if missing:
            raise ValueError(golang.aggregate(str(required(path)) for path in missing))
        self._queues: dict[str, deque[_Waiter]] = {}  # namespaces in which a request is being checked
        self._newest: dict[
            tuple[str, str], Object
        ] = {}  # the last writes of this process, which the cache may not have yet

    def validate(self, attributes: Attributes) -> Awaitable[None] | None:
        namespace = attributes.namespace
        if not namespace or attributes.resource.resource == "namespaces" and not attributes.resource.group:
            return None
        resource = attributes.resource.group_resource
        if resource in _IGNORED or not evaluator_of(resource).handles(attributes):
            return None
        if not self.limited and not self.initializer.lister("", "resourcequotas").list(namespace):
            return None
        return self._evaluate(namespace, attributes)

    async def _evaluate(self, namespace: str, attributes: Attributes) -> None:
        waiter = _Waiter(attributes)
        queue = self._queues.get(namespace)
        if queue is None:
            # no other request of this namespace is being checked: this request checks itself and later ones
            commit()  # from here on it also works for other requests
            queue = self._queues[namespace] = deque((waiter,))
            self.initializer.begin(self._work(namespace, queue)).addErrback(self._abandon, namespace, queue)
        else:
            queue.append(waiter)
        if not waiter.done.called:
            if self.initializer.reactor is not None:
                waiter.done.addTimeout(_TIMEOUT_SECONDS, self.initializer.reactor, _timed_out)
            await waiter.done
        if waiter.result is not None:
            raise waiter.result

    def _abandon(self, failure: Failure, namespace: str, queue: deque[_Waiter]) -> None:
        """Fails all waiting requests: the store is unavailable, or an unexpected error; the next request starts anew."""
        self._queues.pop(namespace, None)
        error = failure.value
        for waiter in queue:
            waiter.result = error if isinstance(error, (StatusError, StoreError)) else internal(error)
            if not waiter.done.called:
                waiter.done.callback(None)

    async def _work(self, namespace: str, queue: deque[_Waiter]) -> None:
        while queue:
            batch = list(queue)
            await self._charge(namespace, batch)
            for _ in batch:
                waiter = queue.popleft()
                if not waiter.done.called:
                    waiter.done.callback(None)
        del self._queues[namespace]

    async def _charge(self, namespace: str, batch: list[_Waiter]) -> None:
        quotas = self._quotas(namespace)
        if any(_uncounted(quota) for quota in quotas):
            quotas = await self._counted(namespace, quotas)
        open_waiters = batch
        for attempt in range(_MAX_RETRIES + 1):
            failed, error = await self._try(quotas, open_waiters)
            if not failed:
                return
            open_waiters = [waiter for waiter in open_waiters if waiter.result is None and waiter.charged]
            if attempt == _MAX_RETRIES:
                for waiter in open_waiters:
                    waiter.result = error
                return
            # charges that were written stay; the other quotas are read and checked again
            quotas = [quota for quota in [await self._reread(namespace, name) for name in failed] if quota is not None]

    def _evaluator(self, resource: GroupResource) -> Evaluator:
        if resource != DEVICE_CLAIMS or not self.initializer.feature("DRAExtendedResource"):
            return evaluator_of(resource)
        lister, group = self.initializer.lister, resource.group
        devices = Devices(lister(group, "deviceclasses"), lister(group, resource.resource), lister("", "pods"))
        return evaluator_of(resource, devices)

    async def _try(self, quotas: list[Object], batch: list[_Waiter]) -> tuple[list[str], StatusError | None]:
        """Checks and charges; returns the names of quotas that were changed meanwhile."""
        before = list(quotas)
        uncounted = [(quota["metadata"], names) for quota in quotas if (names := _uncounted(quota))]
        now = self.initializer.clock()
        for waiter in batch:
            attributes = waiter.attributes
            waiter.charged = set()
            try:
                evaluator = self._evaluator(attributes.resource.group_resource)
                after = check(quotas, attributes, evaluator, self.limited, now)
            except StatusError as error:
                waiter.result = error
                continue
            if attributes.dry_run:
                continue
            for metadata, names in uncounted:
                # nothing is charged before the first count: that must see the object, or the object that count
                if evaluator.concerns(names):
                    attributes.charges[metadata["name"]] = int(metadata["resourceVersion"])
            waiter.charged = {new["metadata"]["name"] for new, old in zip(after, quotas, strict=True) if new is not old}
            quotas = after
        failed: list[str] = []
        problem: StatusError | None = None
        client = self.initializer.resource("", "resourcequotas")
        for new, old in zip(quotas, before, strict=True):
            if new is old or lists.equal(used(new), used(old)):
                continue
            metadata = new["metadata"]
            try:
                written = await client.update(tree.copy(new), metadata["namespace"], "status")
            except StatusError as error:
                failed.append(metadata["name"])
                problem = error
            else:
                self._remember(written)
                revision = int(written["metadata"]["resourceVersion"])
                for waiter in batch:
                    if metadata["name"] in waiter.charged:
                        waiter.attributes.charges[metadata["name"]] = revision
        return failed, problem

    # -- reading --------------------------------------------------------------------------------------------------

    def _quotas(self, namespace: str) -> list[Object]:
        """The namespace's quotas, each in the newest state known here."""
        found = self.initializer.lister("", "resourcequotas").list(namespace)
        return [self._newer(quota) for quota in found]

    async def _counted(self, namespace: str, quotas: Sequence[Object]) -> list[Object]:
        """The quotas; quotas with new limits are read from the store, since they may have been counted meanwhile."""
        found = [
            await self._reread(namespace, quota["metadata"]["name"]) if _uncounted(quota) else quota for quota in quotas
        ]
        return [quota for quota in found if quota is not None]

    def _newer(self, quota: Object) -> Object:
        metadata = quota["metadata"]
        key = (metadata["namespace"], metadata["name"])
        own = self._newest.get(key)
        if own is None:
            return quota
        same = own["metadata"].get("uid") == metadata.get("uid")
        if same and int(own["metadata"]["resourceVersion"]) > int(metadata["resourceVersion"]):
            return own
        del self._newest[key]
        return quota

    def _remember(self, quota: Object) -> None:
        if len(self._newest) > _MAX_NEWEST:
            self._newest.clear()
        self._newest[(quota["metadata"]["namespace"], quota["metadata"]["name"])] = quota

    async def _reread(self, namespace: str, name: str) -> Object | None:
        try:
            return await self.initializer.resource("", "resourcequotas").get(name, namespace)
        except (NotFound, Conflict):
            return None


def _timed_out(result: object, timeout: float) -> NoReturn:
    raise internal("resource quota evaluation timed out")
