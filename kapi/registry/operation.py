"""One write on its way through the registry: its user, object and options."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from kapi.machinery import warnings
from kapi.machinery.field import FieldError
from kapi.machinery.gvk import GroupResource, GroupVersionKind, GroupVersionResource
from kapi.machinery.tree import Object, Tree
from kapi.registry.deletions import PendingDeletion
from kapi.request.context import RequestContext
from kapi.request.user import LOOPBACK_USER, UserInfo
from kapi.resources.definition import Resource, Strategy, Subresource


class Operation(msgspec.Struct):
    """``resource`` is the served version of the request; ``namespace`` and ``name`` are those of the URL."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: Subresource | None = None
    user: UserInfo = LOOPBACK_USER
    field_manager: str = "kube-apiserver"
    dry_run: bool = False
    options: Object = msgspec.field(
        default_factory=dict
    )  # CreateOptions, UpdateOptions ... as admission plugins see them
    warnings: list[str] = msgspec.field(default_factory=list)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)  # for the audit log
    collection: bool = False  # a part of deletecollection: admission gets no name, as upstream
    admitted: bool = False  # a part of another operation that admission has accepted
    view: Callable[[Object], Object] | None = None  # makes the object that admission validates instead (a Scale)
    counted: int | None = None  # revision at which a quota's usage was recalculated, for the update that stores it
    deadline: float = 0.0  # of the request, in reactor seconds; 0: no deadline
    request: RequestContext | None = None  # None for writes of the server itself
    guard_errors: list[FieldError] = msgspec.field(default_factory=list)  # errors of a guard, which validation reports
    #: called when an update would create; raises Forbidden
    authorize_create: Callable[[], Awaitable[None]] | None = None
    stored: bytes = b""  # the bytes of the object that an update replaces
    pending: PendingDeletion | None = None  # set while a collection is deleted: its place in a batch
    sent: Callable[[], Tree] | None = None  # the object as the client sent it, for messages that quote it

    @property
    def group_resource(self) -> GroupResource:
        """The resource as errors name it: events of events.k8s.io are stored as those of the core group."""
        return self.resource.group_resource

    @property
    def strategy(self) -> Strategy:
        """The subresource's own strategy, else the resource's."""
        sub = self.subresource
        return self.resource.strategy if sub is None or sub.strategy is None else sub.strategy

    @property
    def gvr(self) -> GroupVersionResource:
        return self.resource.group_version_resource

    @property
    def kind(self) -> GroupVersionKind:
        """The kind of the bodies."""
        return self.resource.body_kind(self.subresource)

    def warn(self, text: str) -> None:
        warnings.add(self.warnings, text)


class Stored:
    """The result of a write: the object (storage version), its bytes and revision.

    A dry run that would create has revision 0 and no bytes.
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
