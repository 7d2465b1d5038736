"""Authorization by another server: the SubjectAccessReview webhook (upstream: ``authorizer/webhook``)."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Protocol

import orjson
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from kapi.authorization.interface import Attributes, Decision, RuleSet, Verdict
from kapi.authorization.metrics import AuthorizationMeter
from kapi.client.review import ReviewClient, ReviewError
from kapi.machinery.checkpoint import in_slices
from kapi.machinery.memo import ExpiringCache
from kapi.machinery.tree import Object
from kapi.request.user import UserInfo

if TYPE_CHECKING:
    from kapi.client.endpoint_client import EndpointClient

log = Logger()
TYPE = "Webhook"
_MAX_CACHED_LENGTH = 10_000  # characters from the user, or of the reason; longer answers are not cached
_CACHE_SIZE = 8192
_FIELD_OPERATORS = {"=": "In", "==": "In", "!=": "NotIn"}
_LABEL_OPERATORS = {
    "=": "In",
    "==": "In",
    "in": "In",
    "!=": "NotIn",
    "notin": "NotIn",
    "exists": "Exists",
    "!": "DoesNotExist",
}


class MatchConditions(Protocol):
    def quick(self, review: Object) -> bool | None:
        """``matches`` within a few milliseconds; None when it would take longer."""

    def matches(self, review: Object) -> bool:
        """Whether the webhook decides on this review.  Raises ValueError when a condition fails to evaluate."""


def access_review(attributes: Attributes, version: str) -> Object:
    """The SubjectAccessReview for these attributes."""
    user = attributes.user
    spec: Object = {}
    if attributes.is_resource:
        pairs = (
            ("namespace", attributes.namespace),
            ("verb", attributes.verb),
            ("group", attributes.group),
            ("version", attributes.version),
            ("resource", attributes.resource),
            ("subresource", attributes.subresource),
            ("name", attributes.name),
        )
        resource: Object = {key: value for key, value in pairs if value}
        fields = [
            {"key": key, "operator": _FIELD_OPERATORS[operator], "values": [value]}
            for key, operator, value in attributes.field_requirements
        ]
        labels = [
            {"key": key, "operator": _LABEL_OPERATORS[operator], **({"values": list(values)} if values else {})}
            for key, operator, values in attributes.label_requirements
            if operator in _LABEL_OPERATORS
        ]
        if fields:
            resource["fieldSelector"] = {"requirements": fields}
        if labels:
            resource["labelSelector"] = {"requirements": labels}
        spec["resourceAttributes"] = resource
    else:
        spec["nonResourceAttributes"] = {"path": attributes.path, "verb": attributes.verb}
    if user.name:
        spec["user"] = user.name
    if user.groups:
        spec["group" if version == "v1beta1" else "groups"] = list(user.groups)
    if user.extra:
        spec["extra"] = {key: list(values) for key, values in sorted(user.extra.items())}
    if user.uid:
        spec["uid"] = user.uid
    return {
        "kind": "SubjectAccessReview",
        "apiVersion": f"authorization.k8s.io/{version}",
        "metadata": {},
        "spec": spec,
        "status": {"allowed": False},
    }


class WebhookAuthorizer:
    """``authorized_ttl`` and ``unauthorized_ttl`` in seconds; ``on_error``: the decision when the webhook does not answer."""

    def __init__(
        self,
        reactor: IReactorTime,
        client: EndpointClient,
        *,
        version: str,
        authorized_ttl: float,
        unauthorized_ttl: float,
        on_error: Decision = Decision.NO_OPINION,
        conditions: MatchConditions | None = None,
        clock: Callable[[], float] = time.monotonic,
        first_delay: float = 0.5,
        name: str = "default",
        meter: AuthorizationMeter | None = None,
    ) -> None:
        self.name = name
        self._meter = meter or AuthorizationMeter()
        self._reviews = ReviewClient(
            reactor, client, "SubjectAccessReview", "subject access review webhook", first_delay, self._observe
        )
        self.version = version
        self.authorized_ttl = authorized_ttl
        self.unauthorized_ttl = unauthorized_ttl
        self.on_error = on_error
        self.conditions = conditions
        self._cached: ExpiringCache[bytes, Object] = ExpiringCache(_CACHE_SIZE, clock)

    def authorize(self, attributes: Attributes) -> Verdict | Awaitable[Verdict]:
        review = access_review(attributes, self.version)
        if self.conditions is not None:
            started = time.perf_counter()
            matches = self.conditions.quick(review)
            if matches is None:
                return self._judge(self.conditions, review, attributes)
            self._meter.condition_seconds.observe(time.perf_counter() - started, TYPE, self.name)
            if not matches:
                return self._excluded()
        return self._decide(review, attributes)

    async def _judge(self, conditions: MatchConditions, review: Object, attributes: Attributes) -> Verdict:
        """Evaluates conditions that take long, as for a user with many groups."""
        await in_slices
        started = time.perf_counter()
        try:
            matches = conditions.matches(review)
        except ValueError as error:
            self._meter.condition_errors.add(TYPE, self.name)
            return Verdict(self.on_error, "", str(error))
        finally:
            self._meter.condition_seconds.observe(time.perf_counter() - started, TYPE, self.name)
        if not matches:
            return self._excluded()
        verdict = self._decide(review, attributes)
        return verdict if isinstance(verdict, Verdict) else await verdict

    def _excluded(self) -> Verdict:
        self._meter.condition_exclusions.add(TYPE, self.name)
        return Verdict(Decision.NO_OPINION)

    def _decide(self, review: Object, attributes: Attributes) -> Verdict | Awaitable[Verdict]:
        key = sha256(orjson.dumps(review["spec"], option=orjson.OPT_SORT_KEYS)).digest()  # selectors may be long
        known = self._cached.get(key)
        if known is not None:
            return _verdict(known)
        return self._request(review, key, _cacheable(attributes))

    def rules_for(self, user: UserInfo, namespace: str) -> RuleSet:
        return RuleSet(incomplete=True, errors=["webhook authorizer does not support user rule resolution"])

    def _observe(self, result: str, seconds: float) -> None:
        self._meter.webhook_evaluations.add(self.name, result)
        self._meter.webhook_seconds.observe(seconds, self.name, result)

    async def _request(self, review: Object, key: bytes, cacheable: bool) -> Verdict:
        try:
            status = await self._reviews.status(review)
        except ReviewError as error:
            log.error("Failed to make webhook authorizer request: {error}", error=str(error))
            if self.on_error is Decision.NO_OPINION:
                self._meter.webhook_fail_open.add(self.name, error.result)
            return Verdict(self.on_error, "", str(error))
        ttl = self.authorized_ttl if status.get("allowed") else self.unauthorized_ttl
        if cacheable and len(str(status.get("reason") or "")) <= _MAX_CACHED_LENGTH:
            self._cached.put(key, status, ttl)
        return _verdict(status)


def _cacheable(attributes: Attributes) -> bool:
    """Whether the strings from the user are short enough for the answer to be cached."""
    parts: Sequence[str] = (
        attributes.namespace,
        attributes.verb,
        attributes.group,
        attributes.version,
        attributes.resource,
        attributes.subresource,
        attributes.name,
        attributes.path,
    )
    return sum(map(len, parts)) < _MAX_CACHED_LENGTH


def _verdict(status: Object) -> Verdict:
    allowed, denied, reason = bool(status.get("allowed")), bool(status.get("denied")), str(status.get("reason") or "")
    if allowed and denied:
        return Verdict(Decision.DENY, reason, "webhook subject access review returned both allow and deny response")
    if denied:
        return Verdict(Decision.DENY, reason)
    return Verdict(Decision.ALLOW if allowed else Decision.NO_OPINION, reason)
