"""Calls of mutating and validating webhooks: the call, its failures, its metrics, and matchConditions (KEP-3716).

All matchConditions, CEL expressions, must hold before a webhook is called.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import cast

from twisted.internet.defer import CancelledError
from twisted.logger import Logger

from kapi.admission.cel import AuthorizationChecks, Bindings
from kapi.admission.initializer import Initializer
from kapi.admission.interface import Attributes, Plugin
from kapi.admission.manifests import manifests_of
from kapi.admission.source import GROUP, Source
from kapi.admission.versions import in_version
from kapi.admission.webhook.client import CallError, CredentialStore, NoClient, WebhookClient
from kapi.admission.webhook.matching import Hook, Invocation, exempt, matching_rules, read_hooks
from kapi.admission.webhook.resolver import ServiceResolver
from kapi.admission.webhook.review import Answer, BadReview, Undecodable, make_review, read_answer, rejection
from kapi.machinery import warnings
from kapi.machinery.each import entries
from kapi.machinery.golang import aggregate
from kapi.machinery.gvk import GroupVersionKind, GroupVersionResource
from kapi.machinery.status import BadRequest, StatusError, forbidden, internal, out_of_time
from kapi.machinery.tree import Object, Tree
from kapi.process.reactor import Reactor
from kapi.request.info import confidential
from kapi.resources.admissionregistration.expressions import (
    CompileError,
    EvaluationError,
    Expression,
    compile_expression,
    environment,
)
from kapi.resources.definition import Resource

MAX_COST = 2_500_000  # cost of all conditions of one webhook for one request
log = Logger()
#: the prefix of audit annotations
_LAYERS = {"admit": "mutating-webhook", "validating": "validating-webhook"}
_SPANS = {"admit": "Call mutating webhook", "validating": "Call validating webhook"}


async def conditions_hold(
    hook: Hook,
    initializer: Initializer,
    attributes: Attributes,
    kind: GroupVersionKind,
    resource: GroupVersionResource,
    obj: Object | None,
    old: Object | None,
    errors: list[str],
) -> bool:
    """Whether the hook is to be called.  Raises Forbidden when a condition fails and the failure policy is Fail.

    Errors of conditions are added to ``errors``.
    """
    checks = AuthorizationChecks(initializer.authorizer, attributes.user)
    bindings = Bindings(attributes, kind, resource, obj, old, checks)
    budget = MAX_COST
    if hook.compiled is None:
        hook.compiled = [_compiled(expression) for _, expression in hook.conditions]
    for condition in hook.compiled:
        if isinstance(condition, CompileError):
            errors.append(str(condition))
            continue
        try:
            value, cost = await bindings.evaluate(condition, budget)
        except EvaluationError as error:
            errors.append(str(error))
            continue
        budget -= cost
        if value is False:
            return False
    if not errors:
        return True
    if hook.ignore_failures:
        return False
    raise forbidden(attributes.resource.group_resource, attributes.name, aggregate(errors))


def _compiled(expression: str) -> Expression | CompileError:
    try:
        return compile_expression(expression, environment())
    except CompileError as error:
        return error


class CallFailed(Exception):
    """A webhook could not be called or its answer is malformed; the failure policy decides."""

    def __init__(self, hook: str, why: str, code: int) -> None:
        super().__init__(f'failed calling webhook "{hook}": {why}')
        self.code = code


class Refused(Exception):
    """A webhook refused the request."""

    def __init__(self, error: StatusError) -> None:
        super().__init__(error.message)
        self.error = error


class WebhookPlugin(Plugin):
    """Calls the hooks of one kind of configuration.  ``kind`` is its name in metrics."""

    kind = ""
    row: Resource  # the row of the configurations
    configured = True

    def __init__(self, initializer: Initializer, configuration: Tree) -> None:
        self.initializer = initializer
        self.client = shared_client(initializer, configuration)
        self.meter = initializer.meter
        row = self.row
        manifests = manifests_of(type(self).__name__, initializer, configuration, (row,))

        def read() -> tuple[Hook, ...]:
            return read_hooks(initializer.lister(GROUP, row.plural), manifests.of(row) if manifests else ())

        self.source: Source[tuple[Hook, ...]] = Source(initializer, (row.plural,), read, manifests)

    def reload(self) -> None:
        self.source.reload()

    def reloaded_files(self) -> Sequence[str]:
        return self.source.reloaded_files()

    def call(self, attributes: Attributes) -> Awaitable[None] | None:
        """Calls the hooks that match a request."""
        hooks = self.source.get()
        if hooks is None:
            if exempt(attributes) and self.source.manifests is None:
                return None
            return self._call_when_read(attributes)
        named = self._named(hooks, attributes) if hooks else ()
        return None if not named else timed(self.dispatch(named, attributes), attributes, _LAYERS[self.kind])

    def _named(self, hooks: tuple[Hook, ...], attributes: Attributes) -> tuple[tuple[int, Invocation], ...]:
        """The hooks whose rules match the request, with their index.  Only hooks of files see requests for configurations."""
        named = matching_rules(self.source, hooks, self.initializer, attributes)
        if named and exempt(attributes):
            return tuple(each for each in named if each[1].hook.static)
        return named

    async def _call_when_read(self, attributes: Attributes) -> None:
        named = self._named(await self.source.wait(), attributes)
        if named:
            await timed(self.dispatch(named, attributes), attributes, _LAYERS[self.kind])

    async def dispatch(self, named: tuple[tuple[int, Invocation], ...], attributes: Attributes) -> None:
        """Calls the hooks; ``named`` are the hooks whose rules match the request, with their index."""
        raise NotImplementedError

    async def holds(self, invocation: Invocation, attributes: Attributes, obj: Object | None) -> bool:
        """Whether the hook's conditions hold.  Raises Forbidden."""
        hook = invocation.hook
        if not hook.conditions:
            return True
        old, operation = in_version(attributes.old, invocation.kind, attributes), attributes.operation
        start = time.perf_counter()
        errors: list[str] = []
        try:
            held = await conditions_hold(
                hook, self.initializer, attributes, invocation.kind, invocation.resource, obj, old, errors
            )
        finally:
            if self.meter is not None:
                took = time.perf_counter() - start
                self.meter.conditions(hook.name, "webhook", self.kind, operation, took, len(errors))
        if not held and self.meter is not None:
            self.meter.condition_exclusions.add(hook.name, "webhook", self.kind, operation)
        return held

    async def ask(self, invocation: Invocation, attributes: Attributes, obj: Object | None) -> Answer:
        """A hook's answer, perhaps a refusal.  Raises CallFailed, and BadRequest for a dry run that it does not support."""
        hook = invocation.hook
        if attributes.dry_run and hook.side_effects not in ("None", "NoneOnDryRun"):
            raise BadRequest(f'admission webhook "{hook.name}" does not support dry run')
        try:
            uid, version, review = make_review(attributes, invocation, obj)
        except BadReview as error:
            raise CallFailed(hook.name, f"could not create admission objects: {error}", 400) from None
        seconds = self._seconds(hook.timeout, attributes)
        request = attributes.request
        trace = request.trace if request is not None else None
        try:
            if trace is None:
                answer = await self.client.post(hook.client, review, seconds)
            else:
                with trace.call(_SPANS[self.kind], _span_attributes(invocation, attributes, uid)) as call:
                    answer = await self.client.post(hook.client, review, seconds, call.headers)
                    call.event("Request completed")
        except NoClient as error:
            raise CallFailed(hook.name, f"could not get REST client: {error}", error.code) from None
        except CallError as error:
            raise CallFailed(hook.name, f"failed to call webhook: {error}", error.code) from None
        try:
            result = read_answer(answer, uid, version, self.kind == "admit")
        except Undecodable as error:
            raise CallFailed(hook.name, f"failed to call webhook: {error}", 503) from None
        except BadReview as error:
            raise CallFailed(hook.name, f"received invalid webhook response: {error}", 503) from None
        for key, value in entries(result.annotations):
            attributes.annotate(f"{hook.name}/{key}", value)
        warnings.add_all(attributes.warnings, result.warnings)
        return result

    def _seconds(self, given: int, attributes: Attributes) -> float:
        """The timeout of a call: the hook's own, but at most the request's remaining time."""
        deadline = attributes.deadline
        if deadline and self.initializer.reactor is not None:
            left: float = deadline - self.initializer.reactor.seconds()
            return max(0.001, min(float(given), left))
        return float(given)

    async def run(
        self,
        invocation: Invocation,
        attributes: Attributes,
        obj: Object | None,
        note: str,
        use: Callable[[Answer], None] = lambda answer: None,
    ) -> None:
        """Calls a hook, and ``use`` with its answer, which may raise CallFailed; a failed call may be ignored.

        ``note`` is the annotation of an ignored failure.  Raises StatusError: the webhook's refusal, an InternalError for a
        failed call, or a Timeout when the request has no time left.
        """
        hook = invocation.hook
        start = time.perf_counter()
        code, error_type = 200, ""  # ``error_type`` is set only for a rejection
        try:
            answer = await self.ask(invocation, attributes, obj)
            if not answer.allowed:
                raise Refused(rejection(hook.name, answer.status))
            use(answer)
        except CallFailed as failure:
            code = failure.code
            if not hook.ignore_failures:
                error_type = "calling_webhook_error"
                self.check_time(attributes)
                raise internal(failure) from None
            resource = attributes.resource
            quotes = confidential(resource.group, resource.resource)  # the webhook's answer may quote the object
            why = "why is not logged: it may quote the body" if quotes else str(failure)
            log.warn("Failed calling webhook, failing open {hook}: {why}", hook=hook.name, why=why)
            attributes.annotate(note, hook.name)
            if self.meter is not None:
                self.meter.webhook_fail_open.add(hook.name, self.kind)
            self.check_time(attributes)
        except Refused as refused:
            code, error_type = refused.error.code, "no_error"
            raise refused.error from None
        except StatusError:
            code, error_type = 0, "apiserver_internal_error"
            raise
        except CancelledError:
            code = -1  # a cancelled call is not counted
            raise
        finally:
            if code >= 0:
                took = time.perf_counter() - start
                self._count(hook.name, attributes.operation, code, bool(error_type), error_type, took)

    def check_time(self, attributes: Attributes) -> None:
        """Raises Timeout when the request has no time left: upstream's filter answers then, whatever the failurePolicy is."""
        deadline = attributes.deadline
        if deadline and self.initializer.reactor is not None and self.initializer.reactor.seconds() >= deadline:
            request = attributes.request
            raise out_of_time() if request is None else request.late()

    def _count(self, name: str, operation: str, code: int, rejected: bool, error_type: str, seconds: float) -> None:
        meter = self.meter
        if meter is None:
            return
        meter.webhook(name, operation, self.kind, code, rejected, seconds)
        if rejected:
            meter.webhook_rejections.add(name, self.kind, operation, error_type, str(min(code, 600)))


def _span_attributes(invocation: Invocation, attributes: Attributes, uid: str) -> dict[str, str]:
    gvr = attributes.resource
    return {
        "configuration": invocation.hook.configuration,
        "webhook": invocation.hook.name,
        "resource": f"{gvr.group}/{gvr.version}, Resource={gvr.resource}",
        "subresource": attributes.subresource,
        "operation": attributes.operation,
        "UID": uid,
    }


async def timed(calls: Awaitable[None], attributes: Attributes, layer: str) -> None:
    """Adds the duration of the webhooks to the request's latencies, since metrics of service levels do not count them."""
    began = time.perf_counter()
    try:
        await calls
    finally:
        request = attributes.request
        if request is not None:
            request.add_wait(layer, time.perf_counter() - began)


def shared_client(initializer: Initializer, configuration: Tree) -> WebhookClient:
    """The client of a webhook plugin, with the credentials that its configuration names."""
    path = (configuration or {}).get("kubeConfigFile") or ""
    credentials = CredentialStore.load(path) if path else CredentialStore()
    resolver = initializer.resolver
    if resolver is None:
        addresses = initializer.settings.service_addresses
        slices = None
        if initializer.settings.routes_to_endpoints:
            slices = initializer.lister("discovery.k8s.io", "endpointslices")
        resolver = ServiceResolver(initializer.lister("", "services"), addresses, slices)
    reactor = cast(Reactor, initializer.reactor)  # None in a test without webhooks
    return WebhookClient(reactor, resolver, credentials, initializer.egress)
