"""Validation of the access reviews (upstream: ``pkg/apis/authorization/validation``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kapi.machinery.field import FieldError, Path, forbidden, invalid, required
from kapi.machinery.names import label_value, qualified_name
from kapi.machinery.tree import Object

_SPEC = Path("spec")
_RESOURCE = Path("spec.resourceAttributes")
#: how upstream's messages order the fields of metadata
_OWNER_ORDER = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")
_ORDER = (
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
)


def validate_spec(spec: Object, *, own: bool) -> list[FieldError]:
    """The errors of a review's spec; ``own``: of a SelfSubjectAccessReview, which names no user."""
    errors: list[FieldError] = []
    resource, paths = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and paths is not None:
        value = {"Path": paths.get("path", ""), "Verb": paths.get("verb", "")}
        text = "cannot be specified in combination with resourceAttributes"
        errors.append(invalid(_SPEC.child("nonResourceAttributes"), value, text))
    if resource is None and paths is None:
        text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        errors.append(invalid(_SPEC.child("resourceAttributes"), None, text))
    if not own and not spec.get("user") and not spec.get("groups"):
        errors.append(invalid(_SPEC.child("user"), "", "at least one of user or group must be specified"))
    if resource is not None:
        for name, check in (("fieldSelector", _field_term), ("labelSelector", _label_term)):
            selector = resource.get(name)
            if selector is not None:
                errors += _validate_selector(selector, _RESOURCE.child(name), check)
    return errors


def _validate_selector(
    selector: Object, path: Path, check: Callable[[Object, Path], list[FieldError]]
) -> list[FieldError]:
    errors: list[FieldError] = []
    raw, terms = selector.get("rawSelector", ""), selector.get("requirements") or []
    if raw and terms:
        errors.append(invalid(path.child("rawSelector"), raw, "may not specified at the same time as requirements"))
    if not raw and not terms:
        text = f"when {path} is specified, requirements or rawSelector is required"
        errors.append(required(path.child("requirements"), text))
    for position, term in enumerate(terms):
        errors += check(term, path.child("requirements").index(position))
    return errors


def _values(term: Object, path: Path) -> list[FieldError]:
    operator, values = term.get("operator", ""), term.get("values") or []
    if operator in ("In", "NotIn") and not values:
        return [required(path.child("values"), "must be specified when `operator` is 'In' or 'NotIn'")]
    if operator in ("Exists", "DoesNotExist") and values:
        return [forbidden(path.child("values"), "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")]
    return []


def _field_term(term: Object, path: Path) -> list[FieldError]:
    errors = []
    if not term.get("key"):
        errors.append(required(path.child("key"), "must be specified"))
    return errors + _values(term, path)


def _label_term(term: Object, path: Path) -> list[FieldError]:
    key = term.get("key", "")
    errors = _values(term, path) + [invalid(path.child("key"), key, text) for text in qualified_name(key)]
    for position, value in enumerate(term.get("values") or ()):
        errors += [invalid(path.child("values").index(position), value, text) for text in label_value(value)]
    return errors


def _ordered(obj: Object, order: Iterable[str]) -> Object:
    """The fields in the order in which Go prints a struct; clients may send any order."""
    return {key: obj[key] for key in (*order, *obj) if key in obj}


def validate_metadata(metadata: Object, *, local: bool) -> list[FieldError]:
    """The errors of a review's metadata, which must be empty; ``local``: except for the namespace."""
    ignored = {"managedFields", "namespace"} if local else {"managedFields"}
    if all(key in ignored or value in (None, "", {}, []) for key, value in metadata.items()):
        return []
    text = "must be empty except for namespace" if local else "must be empty"
    ordered = _ordered(metadata, _ORDER)
    owners = ordered.get("ownerReferences")
    if owners:
        ordered["ownerReferences"] = [_ordered(owner, _OWNER_ORDER) for owner in owners]
    return [invalid(Path("metadata"), ordered, text)]


def validate_local(obj: Object) -> list[FieldError]:
    """The further errors of a LocalSubjectAccessReview."""
    errors: list[FieldError] = []
    spec, namespace = obj.get("spec") or {}, obj["metadata"].get("namespace", "")
    resource = spec.get("resourceAttributes")
    if resource is not None and resource.get("namespace", "") != namespace:
        path = "spec.resourceAttributes.namespace"
        errors.append(invalid(path, resource.get("namespace", ""), "must match metadata.namespace"))
    paths = spec.get("nonResourceAttributes")
    if paths is not None:
        value = {"Path": paths.get("path", ""), "Verb": paths.get("verb", "")}
        errors.append(invalid("spec.nonResourceAttributes", value, "disallowed on this kind of request"))
    return errors
