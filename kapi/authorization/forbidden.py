"""The 403 of a refused request (upstream: apiserver ``responsewriters/errors.go`` Forbidden)."""

from __future__ import annotations

from kapi.authorization.interface import Attributes
from kapi.machinery import status
from kapi.machinery.golang import quote
from kapi.machinery.gvk import GroupResource
from kapi.request.user import SYSTEM_MASTERS, UserInfo

#: characters that a browser would read as markup
_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def escaped(text: str) -> str:
    """A text with parts that a client sent, escaped so that a browser does not read markup in it."""
    return text.translate(_HTML)


def forbidden_message(attributes: Attributes) -> str:
    """``User "x" cannot get resource "pods" in API group "" in the namespace "y"``."""
    name, verb = quote(attributes.user.name), attributes.verb
    if not attributes.is_resource:
        return f"User {name} cannot {verb} path {quote(attributes.path)}"
    resource = attributes.resource
    if attributes.subresource:
        resource = f"{resource}/{attributes.subresource}"
    text = f"User {name} cannot {verb} resource {quote(resource)} in API group {quote(attributes.group)}"
    if attributes.namespace:
        return f"{text} in the namespace {quote(attributes.namespace)}"
    return f"{text} at the cluster scope"


def forbidden_error(attributes: Attributes, reason: str = "") -> status.StatusError:
    """The error; ``reason`` is the authorizer's, which upstream shows too."""
    message = escaped(forbidden_message(attributes))
    if reason:
        message = f"{message}: {reason}"
    return status.forbidden(GroupResource(attributes.group, attributes.resource), attributes.name, message)


def refused(attributes: Attributes, reason: str = "") -> status.StatusError:
    """As ``forbidden_error``, of a filter: browsers must not guess the type of its answer."""
    error = forbidden_error(attributes, reason)
    error.headers = (("X-Content-Type-Options", "nosniff"),)
    return error


def require_masters(user: UserInfo | None, message: str) -> None:
    """Raises Forbidden with ``message`` for a user who is not in system:masters, which some endpoints are for."""
    if user is None or SYSTEM_MASTERS not in user.groups:
        raise status.Forbidden(message)
