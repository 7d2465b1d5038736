"""What webhooks are asked about large objects, and the worst that they answer."""

from __future__ import annotations

from collections.abc import Callable

from tests.bench.stall_cases.case import SIZE, Case, Object, Place, many
from tests.bench.stall_cases.policies import ADMISSION, RBAC, rule

_SMALL = 1000  # bytes


def _asked(kind: str, answer: str, size: int, conditions: list[str] | None = None) -> Callable[[Place], Case]:
    """A Role goes to a webhook of ``kind`` (mutating or validating) that answers as ``tests.bench.webhook_server`` calls it.

    Nothing but the store limits how large a Role is.
    """

    def make(place: Place) -> Case:
        hook = place.hook(f"{kind.capitalize()}WebhookConfiguration", answer, place.namespace)
        hook["metadata"]["name"] = place.name()
        webhook = hook["webhooks"][0]
        webhook["objectSelector"] = {"matchLabels": {"hooked": "yes"}}
        webhook["rules"][0].update(apiGroups=["rbac.authorization.k8s.io"], resources=["roles"])
        webhook["matchConditions"] = [
            {"name": f"c{index}", "expression": text} for index, text in enumerate(conditions or ())
        ]
        configuration = place.create(ADMISSION, f"{kind}webhookconfigurations", hook, namespaced=False)
        role: Object = {"metadata": {"labels": {"hooked": "yes"}}, "rules": many(rule, size)}
        case = place.create(RBAC, "roles", role)
        case.before = [configuration.request]
        case.after += configuration.after
        case.wait = 2.0
        return case

    return make


_CONDITIONS = [
    "object.rules.all(rule, rule.verbs == ['get'])",
    "object.rules.exists(rule, 'none' in rule.resources)",
    "object == oldObject",
    "object.rules.map(rule, rule.resources).size() > 1",
]

CASES: dict[str, Callable[[Place], Case]] = {
    "webhook asked: mutating": _asked("mutating", "mutate", SIZE),
    "webhook asked: validating": _asked("validating", "validate", SIZE),
    **{
        f"webhook asked: condition {number}": _asked("validating", "validate", SIZE, [text])
        for number, text in enumerate(_CONDITIONS)
    },
    "webhook answers: 100,000 operations": _asked("mutating", "patch-operations", _SMALL),
    "webhook answers: a large value": _asked("mutating", "patch-value", _SMALL),
    "webhook answers: a long text": _asked("mutating", "patch-text", _SMALL),
    "webhook answers: tests": _asked("mutating", "patch-tests", SIZE),
    "webhook answers: moves": _asked("mutating", "patch-moves", SIZE),
    "webhook answers: copies": _asked("mutating", "patch-copies", SIZE),
    "webhook answers: small copies": _asked("mutating", "patch-small-copies", SIZE),
    "webhook answers: warnings": _asked("validating", "warnings", _SMALL),
    "webhook answers: a warning": _asked("validating", "warning", _SMALL),
    "webhook answers: short warnings": _asked("mutating", "short-warnings", _SMALL),
    "webhook answers: annotations": _asked("validating", "annotations", _SMALL),
    "webhook answers: an annotation": _asked("validating", "annotation", _SMALL),
    "webhook answers: a message": _asked("validating", "message", _SMALL),
    "webhook answers: causes": _asked("validating", "causes", _SMALL),
    "webhook answers: unknown fields": _asked("validating", "unknown", _SMALL),
    "webhook answers: a wrong uid": _asked("validating", "uid", _SMALL),
    "webhook answers: an error": _asked("validating", "error", _SMALL),
    "webhook answers: half a JSON": _asked("validating", "half", _SMALL),
}
