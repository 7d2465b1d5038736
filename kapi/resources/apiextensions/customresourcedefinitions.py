"""CustomResourceDefinition (apiextensions.k8s.io/v1): defaults, validation, status (upstream: apiextensions-apiserver
``registry/customresourcedefinition/strategy.go``).

The validation of schemas and their rules is imported when the first definition is written.
"""

from __future__ import annotations

from kapi.cel import TimeExceeded
from kapi.machinery import tree
from kapi.machinery.each import elements
from kapi.machinery.field import FieldError
from kapi.machinery.freeing import free_now
from kapi.machinery.importing import import_in_thread
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource, Strategy, StrategyContext, Subresource, type_meta
from kapi.resources.shared.gated import drop_disabled, gated
from kapi.schema.custom import write_numbers

FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
_VALIDATION = "kapi.resources.apiextensions.validation"
_MIN_THREAD_SECONDS = 1.0  # a longer limit means that validation runs in a thread
_MAX_SIZE_AT_ONCE = 1500  # schema nodes and characters of rules that are validated without a thread


def _storage_version(crd: Object) -> str | None:
    for version in elements(crd, "spec", "versions"):
        if version.get("storage"):
            return str(version.get("name", ""))
    return None


def _remember_storage(crd: Object) -> None:
    name, state = _storage_version(crd), crd["status"]
    if name is not None and name not in (state.get("storedVersions") or ()):
        state["storedVersions"] = [*(state.get("storedVersions") or ()), name]


def _unrecognized(crd: Object) -> list[str]:
    import_in_thread(_VALIDATION)
    from kapi.resources.apiextensions.schema_rules import walk_schemas
    from kapi.schema.structural.formats import recognized

    found: list[str] = []
    for version in elements(crd, "spec", "versions"):
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        for node in walk_schemas(schema):
            format_ = node.get("format")
            if format_ and not recognized(format_, node.get("type") or ""):
                found.append(f'unrecognized format "{format_}"')
    return found


def _refuse_on_reactor(crd: Object, ctx: StrategyContext) -> None:
    """Raises TimeExceeded for a large definition that would be validated on the reactor: each rule takes milliseconds."""
    if not 0 < ctx.validation_seconds < _MIN_THREAD_SECONDS:
        return
    from kapi.resources.apiextensions.schema_rules import walk_schemas

    weight = 0
    for version in elements(crd, "spec", "versions"):
        for node in walk_schemas((version.get("schema") or {}).get("openAPIV3Schema")):
            rules = node.get("x-kubernetes-validations") or ()
            weight += 1 + sum(len(rule.get("rule") or "") + len(rule.get("messageExpression") or "") for rule in rules)
    if weight > _MAX_SIZE_AT_ONCE:
        raise TimeExceeded()


def _mark_terminating(crd: Object, now: str) -> None:
    state = crd.setdefault("status", {})
    others = [item for item in elements(state, "conditions") if item.get("type") != "Terminating"]
    state["conditions"] = [
        *others,
        {
            "type": "Terminating",
            "status": "True",
            "lastTransitionTime": now,
            "reason": "InstanceDeletionPending",
            "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        },
    ]


class CustomResourceDefinitionStrategy(Strategy):
    namespaced = False
    marks_deletion = True
    allow_unconditional_update = False
    reset_fields = ("status",)

    def default(self, obj: Object) -> None:
        spec = obj.get("spec")
        if not isinstance(spec, dict):
            return
        names = spec.get("names")
        if isinstance(names, dict):
            kind = names.get("kind") or ""
            if not names.get("singular") and kind:
                names["singular"] = kind.lower()
            if not names.get("listKind") and kind:
                names["listKind"] = kind + "List"
        spec.setdefault("conversion", {"strategy": "None"})
        service = ((spec["conversion"].get("webhook") or {}).get("clientConfig") or {}).get("service")
        if service is not None and service.get("port") is None:
            service["port"] = 443
        state = obj.get("status")
        storage = _storage_version(obj)
        if isinstance(state, dict) and not state.get("storedVersions") and storage is not None:
            state["storedVersions"] = [storage]

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        obj["status"] = {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": None}
        obj["metadata"]["generation"] = 1
        _remember_storage(obj)

    def prepare_for_update(self, obj: Object, old: Object, ctx: StrategyContext) -> None:
        before = [obj.get("status")]
        obj["status"] = tree.copy(old.get("status") or {})
        free_now(before)
        if not tree.equal(obj.get("spec"), old.get("spec")):
            obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        _remember_storage(obj)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        import_in_thread(_VALIDATION)
        from kapi.resources.apiextensions.validation import validate

        _refuse_on_reactor(obj, ctx)
        return validate(obj)

    def validate_update(self, obj: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        import_in_thread(_VALIDATION)
        from kapi.resources.apiextensions.validation import validate_update

        _refuse_on_reactor(obj, ctx)
        return validate_update(obj, old)

    def canonicalize(self, obj: Object) -> None:
        write_numbers(obj["spec"].get("versions"))  # of defaults, enums and examples

    def begin_deletion(self, obj: Object, options: Object, ctx: StrategyContext) -> bool:
        """The first request marks the definition for deletion; later ones are as for other types."""
        metadata = obj["metadata"]
        if metadata.get("deletionTimestamp"):
            return False
        metadata["deletionTimestamp"] = ctx.now
        _mark_terminating(obj, ctx.now)
        finalizers = metadata.get("finalizers") or []
        if FINALIZER not in finalizers:
            metadata["finalizers"] = [*finalizers, FINALIZER]
        return True

    def warnings_on_create(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return _unrecognized(obj)

    def warnings_on_update(self, obj: Object, old: Object, ctx: StrategyContext) -> list[str]:
        known = set(_unrecognized(old))
        return [text for text in _unrecognized(obj) if text not in known]


_GATED_STATUS = (
    gated("CRDObservedGenerationTracking", "status.observedGeneration", "status.conditions.*.observedGeneration"),
)


class StatusStrategy(CustomResourceDefinitionStrategy):
    reset_fields = ("spec",)

    def prepare_for_update(self, obj: Object, old: Object, ctx: StrategyContext) -> None:
        before = [obj.get("spec")]
        obj["spec"] = old.get("spec")
        free_now(before)
        drop_disabled(_GATED_STATUS, obj, old, ctx)

    def validate_update(self, obj: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        import_in_thread(_VALIDATION)
        from kapi.resources.apiextensions.validation import validate_status_update

        return validate_status_update(obj, old)

    def warnings_on_update(self, obj: Object, old: Object, ctx: StrategyContext) -> list[str]:
        return []


RESOURCE = Resource(
    *type_meta("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    short_names=("crd", "crds"),
    categories=("api-extensions",),
    storage_version_hash="jfWCUB31mvA=",
    strategy=CustomResourceDefinitionStrategy(),
    returns_deleted=True,
    subresources=(Subresource("status", strategy=StatusStrategy()),),
)
