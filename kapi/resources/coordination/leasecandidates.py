"""LeaseCandidate (coordination.k8s.io/v1beta1): a candidate for a Lease, with its version (KEP-4355).

Upstream: ``pkg/apis/coordination/validation``, ``pkg/registry/coordination/leasecandidate``."""

from __future__ import annotations

from kapi.cel.library.semver import Semver, parse
from kapi.machinery.field import Path, invalid, required
from kapi.machinery.tree import Object
from kapi.resources.coordination.leases import validate_strategy
from kapi.resources.definition import FieldText, Resource, StrategyContext
from kapi.resources.shared import printing
from kapi.resources.shared.metadata import validate_immutable
from kapi.resources.shared.names import is_config_map_key
from kapi.resources.shared.rules import Errors
from kapi.resources.shared.strategies import PlainStrategy

_SPEC = Path("spec")
_OLDEST = "OldestEmulationVersion"


def _key_name(name: str, prefix: bool = False) -> tuple[str, ...]:
    """A generateName may have any end."""
    return tuple(is_config_map_key(name))


class LeaseCandidateStrategy(PlainStrategy):
    name_rule = staticmethod(_key_name)
    qualified_finalizers = False
    allow_create_on_update = True
    allow_unconditional_update = False

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        spec = obj.get("spec") or {}
        if not spec.get("leaseName"):
            errors.append(required(_SPEC.child("leaseName")))
        emulated = _version(spec, "emulationVersion", errors)
        if not spec.get("binaryVersion"):
            errors.append(required(_SPEC.child("binaryVersion")))
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

    def check_update(self, obj: Object, old: Object, errors: Errors, ctx: StrategyContext) -> None:
        self.check(obj, old, errors, ctx)
        new, before = ((one.get("spec") or {}).get("leaseName", "") for one in (obj, old))
        validate_immutable(new, before, _SPEC.child("leaseName"), errors)


_NO_VERSION = Semver(0, 0, 0, ())


def _version(spec: Object, name: str, errors: Errors) -> Semver:
    text = spec.get(name) or ""
    if not text:
        return _NO_VERSION
    try:
        return parse(text)
    except ValueError:
        errors.append(invalid(_SPEC.child(name), text, "must be a valid semantic version"))
        return _NO_VERSION


RESOURCE = Resource(
    group="coordination.k8s.io",
    version="v1beta1",
    kind="LeaseCandidate",
    plural="leasecandidates",
    namespaced=True,
    strategy=LeaseCandidateStrategy(),
    table=printing.table(
        printing.NAME,
        printing.column(
            "LeaseName",
            printing.of_spec("leaseName"),
            FieldText("api.coordination.v1alpha2.LeaseCandidateSpec", "leaseName"),
        ),
        printing.column("BinaryVersion", printing.of_spec("binaryVersion")),
        printing.column("EmulationVersion", printing.of_spec("emulationVersion")),
        printing.AGE,
    ),
    gates=("CoordinatedLeaderElection",),
    deprecated="coordination.k8s.io/v1beta1 LeaseCandidate is deprecated in v1.36+, unavailable in v1.39+",
    removed_in="1.39",
)
