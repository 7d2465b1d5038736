"""Lease (coordination.k8s.io/v1), and LeaseCandidate (v1beta1): a candidate for a Lease, with its version (KEP-4355).

Upstream: ``pkg/apis/coordination/validation``, ``pkg/registry/coordination``.
"""

from __future__ import annotations

from kapi.cel.library.semver import Semver, parse
from kapi.machinery.field import Path, forbidden, invalid, required
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource, StrategyContext, type_meta
from kapi.resources.shared import printing
from kapi.resources.shared.gated import drop_disabled, gated
from kapi.resources.shared.names import is_config_map_key, is_label_key
from kapi.resources.shared.rules import Errors, need, report, supported
from kapi.resources.shared.strategies import PlainStrategy

_SPEC = Path("spec")
_GATED = (
    gated("CoordinatedLeaderElection", "spec.strategy"),
    gated("CoordinatedLeaderElection", "spec.preferredHolder"),
)
_OLDEST = "OldestEmulationVersion"
_NO_VERSION = Semver(0, 0, 0, ())


class LeaseStrategy(PlainStrategy):
    qualified_finalizers = False
    allow_create_on_update = True
    allow_unconditional_update = False

    def prepare(self, obj: Object, old: Object | None, ctx: StrategyContext) -> None:
        obj.setdefault("spec", {})
        drop_disabled(_GATED, obj, old, ctx)

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
            errors.append(forbidden(_SPEC.child("preferredHolder"), "may only be specified if `strategy` is defined"))


def validate_strategy(strategy: str, path: Path, errors: Errors) -> None:
    """A known strategy, or a custom one with a domain."""
    parts = strategy.split("/")
    if len(parts) == 1:
        supported(strategy, ("OldestEmulationVersion",), path, errors)
    else:
        report(is_label_key(strategy), strategy, path, errors)


LEASE = Resource(
    *type_meta("coordination.k8s.io/v1", "Lease"),
    strategy=LeaseStrategy(),
    table=printing.table(
        printing.NAME,
        printing.field_column("Holder", ".spec.holderIdentity"),
        printing.AGE,
        of="api.coordination.v1.Lease",
    ),
)


def _key_name(name: str, prefix: bool) -> tuple[str, ...]:
    """The rule for names; a generateName may end with any character."""
    return tuple(is_config_map_key(name))


class LeaseCandidateStrategy(PlainStrategy):
    name_rule = staticmethod(_key_name)
    qualified_finalizers = False
    allow_create_on_update = True
    allow_unconditional_update = False
    immutable = ("spec.leaseName",)

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        spec = obj.get("spec") or {}
        need(spec.get("leaseName"), _SPEC, errors, "leaseName")
        emulated = _version(spec, "emulationVersion", errors)
        need(spec.get("binaryVersion"), _SPEC, errors, "binaryVersion")
        binary = _version(spec, "binaryVersion", errors)
        if spec.get("binaryVersion") and spec.get("emulationVersion") and binary.order() < emulated.order():
            text = "must be greater than or equal to `emulationVersion`"
            errors.append(invalid(_SPEC.child("binaryVersion"), spec["binaryVersion"], text))
        strategy = spec.get("strategy") or ""
        if not strategy:
            errors.append(required(_SPEC.child("strategy")))
            return
        if strategy == _OLDEST and emulated == _NO_VERSION:
            text = f"must be specified when `strategy` is '{_OLDEST}'"
            errors.append(required(_SPEC.child("emulationVersion"), text))
        validate_strategy(strategy, _SPEC.child("strategy", "strategy"), errors)  # upstream names the field twice


def _version(spec: Object, name: str, errors: Errors) -> Semver:
    text = spec.get(name) or ""
    if not text:
        return _NO_VERSION
    try:
        return parse(text)
    except ValueError:
        errors.append(invalid(_SPEC.child(name), text, "must be a valid semantic version"))
        return _NO_VERSION


LEASE_CANDIDATE = Resource(
    *type_meta("coordination.k8s.io/v1beta1", "LeaseCandidate"),
    strategy=LeaseCandidateStrategy(),
    table=printing.table(
        printing.NAME,
        printing.field_column("LeaseName", ".spec.leaseName"),
        printing.column("BinaryVersion", printing.of_spec("binaryVersion")),
        printing.column("EmulationVersion", printing.of_spec("emulationVersion")),
        printing.AGE,
        of="api.coordination.v1alpha2.LeaseCandidate",
    ),
)
