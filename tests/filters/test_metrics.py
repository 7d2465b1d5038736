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
    assert attempt("impersonate") == "jane"
    assert counted(registry, "apiserver_impersonation_attempts_total") == {
        ("allowed", "legacy"): 2,
        ("allowed", "user-info"): 1,
        ("denied", ""): 1,
    }
    assert counted(registry, "apiserver_impersonation_authorization_attempts_total") == {
        ("allowed", "legacy"): 2,
        ("allowed", "user-info"): 2,
        ("denied", "legacy"): 1,
        ("denied", "user-info"): 3,
    }


#: upstream's buckets: those of the filters by layer, and those of the results
LAYER = ["0.0001", "0.0003", "0.001", "0.003", "0.01", "0.03", "0.1", "0.3", "1", "5", "10", "15", "30", "+Inf"]
RESULT = [
    "0.001", "0.002", "0.004", "0.008", "0.016", "0.032", "0.064", "0.128", "0.256", "0.512", "1.024", "2.048", "4.096",
    "8.192", "16.384", "+Inf",
]  # fmt: skip


def test_a_duration_is_in_the_buckets_of_its_result_and_of_its_filter() -> None:
    registry = CollectorRegistry()
    meter = IdentityMeter(registry)
    meter.authenticated("success", 0.0003, "admin")
    meter.authenticated("failure", 0.5)
    meter.authorized("denied", 31.0)
    layers = "apiserver_request_filter_duration_seconds"

    def buckets(name: str, label: str) -> dict[str, float]:
        found = counted(registry, name + "_bucket")
        return {(set(key) - {label}).pop(): value for key, value in found.items() if label in key}

    assert buckets(layers, "authentication") == dict(zip(LAYER, [0, *[1] * 7, *[2] * 6], strict=True))
    assert buckets(layers, "authorization") == dict(zip(LAYER, [0] * 13 + [1], strict=True))
    assert counted(registry, layers + "_sum") == {("authentication",): 0.5003, ("authorization",): 31.0}
    assert buckets("authentication_duration_seconds", "success") == dict.fromkeys(RESULT, 1)
    assert buckets("authentication_duration_seconds", "failure") == dict(zip(RESULT, [0] * 9 + [1] * 7, strict=True))
    assert buckets("authorization_duration_seconds", "denied") == dict(zip(RESULT, [0] * 15 + [1], strict=True))
    assert counted(registry, "authorization_attempts_total") == {("denied",): 1}


def test_filters_that_have_not_run_have_no_durations() -> None:
    registry = CollectorRegistry()
    IdentityMeter(registry)
    found = counted(registry, "apiserver_request_filter_duration_seconds_bucket")
    assert {frozenset(key): value for key, value in found.items()} == {
        frozenset({name, bound}): 0 for name in ("authentication", "authorization") for bound in LAYER
    }  # fmt: skip
