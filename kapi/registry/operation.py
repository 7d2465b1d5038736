"""One write on its way through the registry: who, what, with which options."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from kapi.machinery import warnings
from kapi.machinery.field import FieldError
from kapi.machinery.gvk import GroupVersionKind, GroupVersionResource
from kapi.machinery.tree import Object, Tree
from kapi.registry.deletions import Outcome
from kapi.request.context import RequestContext
from kapi.request.user import LOOPBACK_USER, UserInfo
from kapi.resources.definition import Resource, Strategy, Subresource


class Operation(msgspec.Struct):
    """``resource`` is the served row, whose version the request speaks; names are those of the URL."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: Subresource | None = None
    user: UserInfo = LOOPBACK_USER
    field_manager: str = "kapi"
    dry_run: bool = False
    options: Object = msgspec.field(default_factory=dict)  # CreateOptions, UpdateOptions ... as admission shows them
    warnings: list[str] = msgspec.field(default_factory=list)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)  # for the audit log
    collection: bool = False  # one of many: admission does not get the name, as upstream's is not
    admitted: bool = False  # part of another operation, which admission has let pass
    view: Callable[[Object], Object] | None = None  # what admission validates instead of the object (a Scale)
    counted: int | None = None  # this update is a quota counted anew, from what was stored at this revision
    deadline: float = 0.0  # by when the request is to be answered, in reactor seconds; 0 = no end
    request: RequestContext | None = None  # whose operation it is
    refused: list[FieldError] = msgspec.field(default_factory=list)  # what a guard leaves to validation to report
    #: raises Forbidden: asked when an update would create
    authorize_create: Callable[[], Awaitable[None]] | None = None
    stored_bytes: int = 0  # of what is stored now, where that is to be changed
    outcome: Outcome | None = None  # of a deletion that may go to the store with others
    sent: Callable[[], Tree] | None = None  # the object as the client sent it, for messages that quote it

    @property
    def strategy(self) -> Strategy:
        """The subresource's own strategy, else the resource's."""
        sub = self.subresource
        return self.resource.strategy if sub is None or sub.strategy is None else sub.strategy

    @property
    def gvr(self) -> GroupVersionResource:
        return GroupVersionResource(self.resource.group, self.resource.version, self.resource.plural)

    @property
    def kind(self) -> GroupVersionKind:
        """The kind of the bodies: the subresource's own where it has one."""
        sub = self.subresource
        if sub is not None and sub.kind and sub.kind != self.resource.kind:
            return GroupVersionKind(sub.group or self.resource.group, sub.version or self.resource.version, sub.kind)
        return GroupVersionKind(self.resource.group, self.resource.version, self.resource.kind)

    def warn(self, text: str) -> None:
        warnings.add(self.warnings, text)


class Stored:
    """What a write left in the store: the object (storage version), its bytes and revision.

    A dry run that would create has no revision and no bytes.
    """

    __slots__ = ("obj", "data", "revision", "created", "deleted")

    def __init__(
        self, obj: Object, data: bytes, revision: int, *, created: bool = False, deleted: bool = False
    ) -> None:
        self.obj = obj
        self.data = data
        self.revision = revision
        self.created = created
        self.deleted = deleted
