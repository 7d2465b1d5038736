"""Group, version, kind and resource names (upstream: apimachinery ``runtime/schema``)."""

from __future__ import annotations

from typing import NamedTuple


class GroupVersion(NamedTuple):
    """An API group and one of its versions; the core group is ``""``."""

    group: str
    version: str

    @classmethod
    def parse(cls, text: str) -> GroupVersion:
        """Reads ``apiVersion``: ``v1`` or ``apps/v1``.  Raises ValueError on more than one slash."""
        if not text or text == "/":
            return cls("", "")
        group, slash, version = text.partition("/")
        if not slash:
            return cls("", group)
        if "/" in version:
            raise ValueError(f"unexpected GroupVersion string: {text}")
        return cls(group, version)

    def __str__(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


class GroupResource(NamedTuple):
    """A resource without its version, as in errors, keys and RBAC rules."""

    group: str
    resource: str

    def __str__(self) -> str:
        return f"{self.resource}.{self.group}" if self.group else self.resource


class GroupKind(NamedTuple):
    """A kind without its version."""

    group: str
    kind: str

    def __str__(self) -> str:
        return f"{self.kind}.{self.group}" if self.group else self.kind


class GroupVersionResource(NamedTuple):
    """A resource as in a URL."""

    group: str
    version: str
    resource: str

    @property
    def group_version(self) -> GroupVersion:
        return GroupVersion(self.group, self.version)

    @property
    def group_resource(self) -> GroupResource:
        return GroupResource(self.group, self.resource)


class GroupVersionKind(NamedTuple):
    """A kind as in an object's ``apiVersion`` and ``kind``."""

    group: str
    version: str
    kind: str

    @property
    def group_version(self) -> GroupVersion:
        return GroupVersion(self.group, self.version)

    @property
    def group_kind(self) -> GroupKind:
        return GroupKind(self.group, self.kind)

    def __str__(self) -> str:
        """The form of upstream's messages: ``apps/v1, Kind=Deployment``."""
        return f"{GroupVersion(self.group, self.version)}, Kind={self.kind}"
