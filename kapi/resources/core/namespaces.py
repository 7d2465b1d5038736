"""Namespace (v1) with its ``finalize`` and ``status`` subresources.

Upstream: ``pkg/apis/core/validation``: ValidateNamespace; ``pkg/registry/core/namespace``."""

from __future__ import annotations

from kapi.machinery.each import each_of, elements
from kapi.machinery.field import Path, invalid
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource, StrategyContext, Subresource, selectable, type_meta
from kapi.resources.shared import printing
from kapi.resources.shared.metadata import validate_metadata, validate_metadata_update
from kapi.resources.shared.names import is_label_key, label_name
from kapi.resources.shared.rules import Errors, report
from kapi.resources.shared.strategies import PlainStatusStrategy, PlainStrategy, keep

KUBERNETES = "kubernetes"
NAME_LABEL = "kubernetes.io/metadata.name"
_FINALIZERS = Path("spec").child("finalizers")
_STANDARD = ("kubernetes", "orphan", "foregroundDeletion")


def _finalizer(name: str, path: Path, errors: Errors) -> None:
    report(is_label_key(name), name, path, errors)
    if "/" not in name and name not in _STANDARD:
        errors.append(invalid(path, name, "name is neither a standard finalizer name nor is it fully qualified"))


def _label_with_name(obj: Object) -> None:
    """Adds the label with the name, by which every namespace can be selected."""
    metadata = obj["metadata"]
    metadata["labels"] = {**(metadata.get("labels") or {}), NAME_LABEL: metadata.get("name", "")}


class NamespaceStrategy(PlainStrategy):
    marks_deletion = True
    namespaced = False
    name_rule = staticmethod(label_name)
    reset_fields = ("status",)

    def default(self, obj: Object) -> None:
        if (obj.get("metadata") or {}).get("name"):
            _label_with_name(obj)
        obj.setdefault("spec", {})
        status = obj.setdefault("status", {})
        status["phase"] = status.get("phase") or "Active"

    def prepare(self, obj: Object, old: Object | None, ctx: StrategyContext) -> None:
        spec = obj.setdefault("spec", {})
        if old is None:
            obj["status"] = {"phase": "Active"}
            if KUBERNETES not in (spec.get("finalizers") or []):
                spec["finalizers"] = [*(spec.get("finalizers") or []), KUBERNETES]
        else:
            keep(spec, old.get("spec") or {}, "finalizers")
            keep(obj, old, "status")

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        for name in elements(obj, "spec", "finalizers"):
            _finalizer(name, _FINALIZERS, errors)

    def validate_update(self, obj: Object, old: Object, ctx: StrategyContext) -> Errors:
        errors: Errors = []
        validate_metadata(obj, errors, namespaced=False, name=label_name)
        self.check(obj, old, errors, ctx)
        validate_metadata_update(obj, old, errors)
        return errors

    def canonicalize(self, obj: Object) -> None:
        _label_with_name(obj)

    def begin_deletion(self, obj: Object, options: Object, ctx: StrategyContext) -> bool:
        """The first request starts the termination; later ones change nothing until ``spec.finalizers`` is empty."""
        metadata = obj["metadata"]
        if metadata.get("deletionTimestamp"):
            return self.holds_deletion(obj)
        metadata["deletionTimestamp"] = ctx.now
        obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
        orphans, propagation = options.get("orphanDependents"), options.get("propagationPolicy")
        if orphans is None and propagation is None:
            return True
        wanted = {
            "orphan": bool(orphans) if orphans is not None else propagation == "Orphan",
            "foregroundDeletion": not orphans if orphans is not None else propagation == "Foreground",
        }
        finalizers = [name for name in elements(metadata, "finalizers") if wanted.get(name, True)]
        finalizers += [name for name, wants in wanted.items() if wants and name not in finalizers]
        metadata.pop("finalizers", None)
        if finalizers:
            metadata["finalizers"] = finalizers
        return True

    def holds_deletion(self, obj: Object) -> bool:
        return bool((obj.get("spec") or {}).get("finalizers"))


class NamespaceStatusStrategy(PlainStatusStrategy):
    def check_update(self, obj: Object, old: Object, errors: Errors, ctx: StrategyContext) -> None:
        phase, path = (obj.get("status") or {}).get("phase", ""), Path("status").child("Phase")
        if obj["metadata"].get("deletionTimestamp"):
            if phase != "Terminating":
                errors.append(invalid(path, phase, "may only be 'Terminating' if `deletionTimestamp` is not empty"))
        elif phase != "Active":
            errors.append(invalid(path, phase, "may only be 'Active' if `deletionTimestamp` is empty"))

    def canonicalize(self, obj: Object) -> None:
        _label_with_name(obj)


class NamespaceFinalizeStrategy(PlainStatusStrategy):
    """``namespaces/finalize``: removes a finalizer from ``spec.finalizers`` after its clean-up."""

    reset_fields = ("status",)
    kept = ("status",)

    def check_update(self, obj: Object, old: Object, errors: Errors, ctx: StrategyContext) -> None:
        for name, here in each_of(_FINALIZERS, (obj.get("spec") or {}).get("finalizers")):
            _finalizer(name, here, errors)

    def canonicalize(self, obj: Object) -> None:
        _label_with_name(obj)


_STRATEGY = NamespaceStrategy()

RESOURCE = Resource(
    *type_meta("v1", "Namespace"),
    verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
    short_names=("ns",),
    subresources=(
        Subresource("finalize", ("update",), strategy=NamespaceFinalizeStrategy(_STRATEGY)),
        Subresource("status", strategy=NamespaceStatusStrategy(_STRATEGY)),
    ),
    strategy=_STRATEGY,
    selectable_fields={"status.phase": selectable("status.phase")},
    returns_deleted=True,
    table=printing.table(
        printing.NAME,
        printing.column(
            "Status", lambda obj, now: (obj.get("status") or {}).get("phase", ""), "The status of the namespace"
        ),
        printing.AGE,
    ),
)
