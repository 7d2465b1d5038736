"""The attributes by which a request is authorized (upstream: apiserver ``filters/authorization.go`` GetAuthorizerAttributes)."""

from __future__ import annotations

from kapi.authorization.interface import Attributes
from kapi.machinery.selectors import SelectorError, parse_fields, parse_labels
from kapi.request.context import RequestContext


def attributes_of(ctx: RequestContext) -> Attributes:
    """The attributes of the request, for its effective user."""
    info, user = ctx.info, ctx.user
    assert info is not None and user is not None
    attributes = Attributes(
        user=user,
        verb=info.verb,
        is_resource=info.is_resource,
        path=info.path,
        group=info.group,
        version=info.version,
        resource=info.resource,
        subresource=info.subresource,
        namespace=info.namespace,
        name=info.name,
    )
    if info.field_selector:
        try:
            attributes.field_requirements = tuple(
                (term.key, term.operator, term.value) for term in parse_fields(info.field_selector).requirements
            )
        except SelectorError as error:
            attributes.field_selector_error = str(error)
    if info.label_selector:
        try:
            attributes.label_requirements = tuple(
                (term.key, term.operator, tuple(sorted(term.values)))
                for term in parse_labels(info.label_selector).requirements
            )
        except SelectorError as error:
            attributes.label_selector_error = str(error)
    return attributes
