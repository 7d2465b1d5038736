"""The authorizer interface (upstream: apiserver ``pkg/authorization/authorizer``)."""

from __future__ import annotations

import enum
from collections.abc import Awaitable
from typing import NamedTuple, Protocol

import msgspec

from kapi.request.user import UserInfo


class Decision(enum.Enum):
    ALLOW = "allow"
    DENY = "forbid"
    NO_OPINION = "no opinion"


class Verdict(NamedTuple):
    """A decision, its reason, and an error on the way to it (shown only by the review APIs and the log)."""

    decision: Decision
    reason: str = ""
    error: str = ""


class Attributes(msgspec.Struct):
    """A request to authorize: ``user`` does ``verb`` on the resource or path."""

    user: UserInfo
    verb: str
    is_resource: bool = True
    path: str = ""  # of a non-resource request
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    field_requirements: tuple[tuple[str, str, str], ...] = ()  # (field, operator, value) when parsed from a selector
    label_requirements: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    field_selector_error: str = ""
    label_selector_error: str = ""


class Authorizer(Protocol):
    def authorize(self, attributes: Attributes) -> Verdict | Awaitable[Verdict]: ...
