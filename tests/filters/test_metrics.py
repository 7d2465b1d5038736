"""What the filters count of identities: by few labels, and without anybody's name."""

from __future__ import annotations

from prometheus_client import CollectorRegistry
from twisted.internet.defer import Deferred

from kapi.authorization.interface import Attributes, Decision, Verdict
from kapi.filters.impersonation import impersonation
from kapi.filters.metrics import IdentityMeter
from kapi.machinery.status import Forbidden
from kapi.request.user import UserInfo
from tests.filters.requests import request


class OnlyVerbs:
    """Allows some verbs."""

    def __init__(self, *verbs: str) -> None:
        self.verbs = verbs

    def authorize(self, attributes: Attributes) -> Verdict:
        return Verdict(Decision.ALLOW if attributes.verb in self.verbs else Decision.NO_OPINION)


def counted(registry: CollectorRegistry, name: str) -> dict[tuple[str, ...], float]:
    return {
        tuple(sample.labels[key] for key in sorted(sample.labels)): sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == name
    }


def test_names_of_people_are_no_labels() -> None:
    registry = CollectorRegistry()
    meter = IdentityMeter(registry)
    for user in ("admin", "jane", "bob", "jane@example.org", "system:serviceaccount:kube-system:default"):
        meter.authenticated("success", 0.001, user)
    meter.authenticated("error", 0.5)
    assert counted(registry, "authenticated_user_requests") == {
        ("admin",): 1,
        ("email_id",): 1,
        ("other",): 2,
        ("system:serviceaccount:kube-system:default",): 1,
    }
    assert counted(registry, "authentication_attempts") == {("success",): 5, ("error",): 1}


def test_impersonations_by_mode() -> None:
    registry = CollectorRegistry()
    meter = IdentityMeter(registry)

    def attempt(*verbs: str) -> str:
        ctx = request(headers={"Impersonate-User": "jane"}, user=UserInfo("admin"))
        waiting = impersonation(OnlyVerbs(*verbs), meter=meter)(ctx)
        assert waiting is not None
        outcome: list[object] = []
        Deferred.fromCoroutine(waiting).addCallbacks(outcome.append, lambda failure: outcome.append(failure.value))  # type: ignore[arg-type]
        return "refused" if isinstance(outcome[0], Forbidden) else ctx.user.name if ctx.user else ""

    assert attempt("impersonate") == "jane"
    assert attempt("impersonate-on:user-info:list", "impersonate:user-info") == "jane"
    assert attempt() == "refused"
    assert counted(registry, "apiserver_impersonation_attempts_total") == {
        ("allowed", "legacy"): 1,
        ("allowed", "user-info"): 1,
        ("denied", ""): 1,
    }
    assert counted(registry, "apiserver_impersonation_authorization_attempts_total") == {
        ("allowed", "legacy"): 1,
        ("allowed", "user-info"): 2,
        ("denied", "legacy"): 1,
        ("denied", "user-info"): 2,
    }
