"""ValidatingAdmissionWebhook: all matching webhooks are called concurrently; the first refusal counts."""

from __future__ import annotations

from collections.abc import Awaitable

from twisted.internet.defer import DeferredList
from twisted.python.failure import Failure

from kapi.admission.interface import Attributes
from kapi.admission.versions import in_version
from kapi.admission.webhook.calls import WebhookPlugin
from kapi.admission.webhook.matching import Invocation, selected
from kapi.machinery.tree import Object
from kapi.resources.admissionregistration.webhooks import VALIDATING

_NOTE = "failed-open.validating.webhook.admission.k8s.io/round_0_index_{}"


class ValidatingAdmissionWebhook(WebhookPlugin):
    kind = "validating"
    row = VALIDATING

    def validate(self, attributes: Attributes) -> Awaitable[None] | None:
        return self.call(attributes)

    async def dispatch(self, named: tuple[tuple[int, Invocation], ...], attributes: Attributes) -> None:
        matching: list[tuple[Invocation, Object | None]] = []
        for _, invocation in named:
            if not await selected(invocation, self.initializer, attributes):
                continue
            obj = in_version(attributes.obj, invocation.kind, attributes)
            if await self.holds(invocation, attributes, obj):
                matching.append((invocation, obj))
        if not matching:
            return
        self.check_time(attributes)
        if len(matching) == 1:
            await self.run(*matching[0][:1], attributes, matching[0][1], _NOTE.format(0))
            return
        failures: list[Failure] = []
        calls = []
        for i, (invocation, obj) in enumerate(matching):
            call = self.initializer.begin(self.run(invocation, attributes, obj, _NOTE.format(i)))
            call.addErrback(failures.append)
            calls.append(call)
        waiting = DeferredList(calls)
        try:
            await waiting
        except BaseException:
            for call in calls:
                call.cancel()
            raise
        if failures:
            failures[0].raiseException()
