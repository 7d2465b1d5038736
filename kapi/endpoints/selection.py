"""Makes the predicate over cache entries from a request's selectors."""

from __future__ import annotations

from kapi.endpoints.options import ListOptions, check_selectors
from kapi.endpoints.scope import RequestScope
from kapi.machinery import status
from kapi.machinery.selectors import FieldSelector, Predicate, parse_fields


def predicate_of(scope: RequestScope, options: ListOptions, name: str = "") -> Predicate | None:
    """The predicate; None when everything is selected.  Raises BadRequest for invalid or unsupported selectors."""
    if not options.label_selector and not options.field_selector and not name:
        return None
    labels, fields = check_selectors(options)
    known = scope.resource.selectable_fields
    for requirement in fields.requirements:
        field = requirement.key
        if field == "metadata.name" or (field == "metadata.namespace" and scope.resource.selects_namespaces):
            continue
        if field not in known:
            raise status.bad_request(scope.resource.field_label_error(field))
    aliases = scope.resource.field_aliases
    if aliases:
        fields = FieldSelector(
            tuple(term._replace(key=aliases.get(term.key, term.key)) for term in fields.requirements)
        )
    if name:
        given = fields.exact("metadata.name")
        if not fields.empty and given != name:
            raise status.bad_request("fieldSelector metadata.name doesn't match requested name")
        if fields.empty:
            fields = parse_fields(f"metadata.name={name}")
    predicate = Predicate(labels, fields)
    return None if predicate.empty else predicate
