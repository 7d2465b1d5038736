"""SubjectAccessReview, SelfSubjectAccessReview and LocalSubjectAccessReview: whether a user may do something.

Upstream: ``pkg/registry/authorization/*accessreview``, ``pkg/registry/authorization/util``,
``pkg/apis/authorization/validation``.  They use the authorizer of the server's own requests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kapi.authorization.interface import Attributes, Decision, decided, field_terms, label_terms
from kapi.endpoints.reviews.posted_review import PostedReview, ReviewServices, read_review
from kapi.endpoints.scope import RequestScope
from kapi.machinery import status
from kapi.machinery.field import FieldError, Path, forbidden, invalid, required
from kapi.machinery.gvk import GroupKind
from kapi.machinery.names import label_value, qualified_name
from kapi.machinery.selectors import SelectorError
from kapi.machinery.tree import Object
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.request.user import UserInfo
from kapi.schema.builtin import definition
from kapi.schema.quoted import go_order

Term = TypeVar("Term")
_LABEL_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}
_FIELD_OPERATORS = {"In": "=", "NotIn": "!="}
_SPEC = Path("spec")
_RESOURCE = Path("spec.resourceAttributes")
_METADATA = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
#: upstream takes the kind from the decoded internal object, where it is empty
_KIND = GroupKind("authorization.k8s.io", "")


def attributes_from(spec: Object, user: UserInfo) -> Attributes:
    """The attributes for a SubjectAccessReview's spec and ``user``."""
    resource = spec.get("resourceAttributes")
    if resource is None:
        paths = spec.get("nonResourceAttributes") or {}
        return Attributes(user, paths.get("verb", ""), is_resource=False, path=paths.get("path", ""))
    attributes = Attributes(
        user=user,
        verb=resource.get("verb", ""),
        group=resource.get("group", ""),
        version=resource.get("version") or "*",
        resource=resource.get("resource", ""),
        subresource=resource.get("subresource", ""),
        namespace=resource.get("namespace", ""),
        name=resource.get("name", ""),
    )
    labels = _read(resource.get("labelSelector") or {}, label_terms, _label)
    fields = _read(resource.get("fieldSelector") or {}, field_terms, _field)
    attributes.label_requirements = tuple(term for term in labels if term is not None)
    attributes.field_requirements = tuple(term for term in fields if term is not None)
    attributes.labels_ignored, attributes.fields_ignored = None in labels, None in fields
    return attributes


def _read(
    selector: Object, parse: Callable[[str], tuple[Term, ...]], read: Callable[[Object], Term | None]
) -> list[Term | None]:
    """The requirements of a selector; None for one that cannot be read, or for all of a text."""
    found = [read(term) for term in selector.get("requirements") or ()]
    raw = selector.get("rawSelector")
    if raw:
        try:
            found += parse(raw)
        except SelectorError:
            found.append(None)
    return found


def _label(term: Object) -> tuple[str, str, tuple[str, ...]] | None:
    operator = _LABEL_OPERATORS.get(term.get("operator", ""))
    return None if operator is None else (term.get("key", ""), operator, tuple(term.get("values") or ()))


def _field(term: Object) -> tuple[str, str, str] | None:
    """Only one value can be compared as yet."""
    operator, values = _FIELD_OPERATORS.get(term.get("operator", "")), term.get("values") or []
    return None if operator is None or len(values) != 1 else (term.get("key", ""), operator, values[0])


def evaluation_error(error: str, attributes: Attributes) -> str:
    """The evaluationError of a review's status: the authorizer's error, and which selectors were ignored."""
    texts = [error] if error else []
    for name, ignored, kept in (
        ("fieldSelector", attributes.fields_ignored, attributes.field_requirements),
        ("labelSelector", attributes.labels_ignored, attributes.label_requirements),
    ):
        if ignored:
            partly = "partially ignored" if kept else "ignored"
            texts.append(f"spec.resourceAttributes.{name} {partly} due to parse error")
    return "; ".join(texts)


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


def validate_metadata(metadata: Object, *, local: bool) -> list[FieldError]:
    """The errors of a review's metadata, which must be empty; ``local``: except for the namespace."""
    ignored = {"managedFields", "namespace"} if local else {"managedFields"}
    if all(key in ignored or value in (None, "", {}, []) for key, value in metadata.items()):
        return []
    text = "must be empty except for namespace" if local else "must be empty"
    return [invalid(Path("metadata"), go_order(metadata, definition(_METADATA)), text)]


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


async def subject_access_review(ctx: RequestContext, scope: RequestScope, services: ReviewServices) -> Response:
    posted = await read_review(ctx, scope, services)
    spec = posted.obj.setdefault("spec", {})
    _check(validate_spec(spec, own=False) + validate_metadata(posted.obj["metadata"], local=False))
    return await _answer(posted, services, _user(spec))


async def local_subject_access_review(ctx: RequestContext, scope: RequestScope, services: ReviewServices) -> Response:
    posted = await read_review(ctx, scope, services)
    obj = posted.obj
    spec = obj.setdefault("spec", {})
    _check(validate_spec(spec, own=False) + validate_metadata(obj["metadata"], local=True) + validate_local(obj))
    return await _answer(posted, services, _user(spec))


async def self_subject_access_review(ctx: RequestContext, scope: RequestScope, services: ReviewServices) -> Response:
    posted = await read_review(ctx, scope, services)
    spec = posted.obj.setdefault("spec", {})
    _check(validate_spec(spec, own=True) + validate_metadata(posted.obj["metadata"], local=False))
    assert ctx.user is not None
    return await _answer(posted, services, ctx.user)


def _check(errors: list[FieldError]) -> None:
    if errors:
        raise status.invalid(_KIND, "", errors)


def _user(spec: Object) -> UserInfo:
    extra = {key: tuple(values or ()) for key, values in (spec.get("extra") or {}).items()}
    return UserInfo(spec.get("user", ""), spec.get("uid", ""), tuple(spec.get("groups") or ()), extra)


async def _answer(posted: PostedReview, services: ReviewServices, user: UserInfo) -> Response:
    await posted.validate()
    attributes = attributes_from(posted.obj["spec"], user)
    verdict = await decided(services.authorizer, attributes)
    answer: Object = {"allowed": verdict.decision is Decision.ALLOW}
    if verdict.decision is Decision.DENY:
        answer["denied"] = True
    if verdict.reason:
        answer["reason"] = verdict.reason
    error = evaluation_error(verdict.error, attributes)
    if error:
        answer["evaluationError"] = error
    review = {key: value for key, value in posted.obj.items() if key != "status"}
    review["status"] = answer
    return posted.answer(review)
