"""Lease (coordination.k8s.io/v1).

Upstream: ``pkg/apis/coordination/validation``, ``pkg/registry/coordination/lease``."""

from __future__ import annotations

from kapi.machinery.field import Path, forbidden, invalid
from kapi.machinery.tree import Object
from kapi.resources.definition import FieldText, Resource, StrategyContext
from kapi.resources.shared import printing
from kapi.resources.shared.features import gate
from kapi.resources.shared.names import is_label_key
from kapi.resources.shared.rules import Errors, not_supported
from kapi.resources.shared.strategies import PlainStrategy

_SPEC = Path("spec")


class LeaseStrategy(PlainStrategy):
    qualified_finalizers = False
    allow_create_on_update = True
    allow_unconditional_update = False

    def prepare(self, obj: Object, old: Object | None, ctx: StrategyContext) -> None:
        spec = obj.setdefault("spec", {})
        if gate(ctx, "CoordinatedLeaderElection"):
            return
        for name in ("strategy", "preferredHolder"):
            if ((old or {}).get("spec") or {}).get(name) is None:
                spec.pop(name, None)

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        spec = obj.get("spec") or {}
        seconds, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
        if seconds is not None and seconds <= 0:
            errors.append(invalid(_SPEC.child("leaseDurationSeconds"), seconds, "must be greater than 0"))
        if transitions is not None and transitions < 0:
            errors.append(invalid(_SPEC.child("leaseTransitions"), transitions, "must be greater than or equal to 0"))
        strategy = spec.get("strategy")
        if strategy is not None:
            # upstream names the field twice
            validate_strategy(strategy, _SPEC.child("strategy", "strategy"), errors)
        if spec.get("preferredHolder") and not strategy:
            detail = "may only be specified if `strategy` is defined"
            errors.append(forbidden(_SPEC.child("preferredHolder"), detail))


def validate_strategy(strategy: str, path: Path, errors: Errors) -> None:
    """A known strategy, or a custom one with a domain."""
    parts = strategy.split("/")
    if len(parts) == 1:
        if strategy != "OldestEmulationVersion":
            errors.append(not_supported(path, strategy, ("OldestEmulationVersion",)))
    else:
        errors += [invalid(path, strategy, problem) for problem in is_label_key(strategy)]


RESOURCE = Resource(
    group="coordination.k8s.io",
    version="v1",
    kind="Lease",
    plural="leases",
    namespaced=True,
    storage_version_hash="gqkMMb/YqFM=",
    strategy=LeaseStrategy(),
    table=printing.table(
        printing.NAME,
        printing.column(
            "Holder",
            lambda obj, now: (obj.get("spec") or {}).get("holderIdentity") or "",
            FieldText("api.coordination.v1.LeaseSpec", "holderIdentity"),
        ),
        printing.AGE,
    ),
)
