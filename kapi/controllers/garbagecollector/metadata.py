"""The metadata that the garbage collector needs, read directly from the stored bytes.

Most objects have no owners and are not in deletion: two searches in their bytes show this, and nothing is decoded.
"""

from __future__ import annotations

from sys import intern

import msgspec

from kapi.machinery.each import elements

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
_OWNED, _GOING = MARKS = b'"ownerReferences"', b'"deletionTimestamp"'


class Reference(msgspec.Struct, frozen=True, gc=False):
    """The reference of a dependent to an owner."""

    api_version: str
    kind: str
    name: str
    uid: str
    blocks: bool  # the owner's foreground deletion waits for the dependent


class Metadata(msgspec.Struct, frozen=True, gc=False):
    """The needed fields."""

    uid: str
    resource_version: str = ""
    api_version: str = ""  # the object's
    kind: str = ""
    owners: tuple[Reference, ...] = ()
    finalizers: tuple[str, ...] = ()
    going: bool = False  # its deletion was requested

    @property
    def waits(self) -> bool:
        """Whether it is deleted after its blocking dependents (foreground deletion)."""
        return self.going and FOREGROUND in self.finalizers

    @property
    def orphans(self) -> bool:
        """Whether it is deleted when no dependent refers to it any more (orphaning)."""
        return self.going and ORPHAN in self.finalizers


class _Owner(msgspec.Struct, gc=False, rename="camel"):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    block_owner_deletion: bool | None = None


class _Metadata(msgspec.Struct, gc=False, rename="camel"):
    uid: str = ""
    resource_version: str = ""
    owner_references: list[_Owner] | None = None
    finalizers: list[str] | None = None
    deletion_timestamp: str | None = None


class _Object(msgspec.Struct, gc=False, rename="camel"):
    metadata: _Metadata
    api_version: str = ""
    kind: str = ""


class _Uid(msgspec.Struct, gc=False):
    uid: str = ""


class _Identified(msgspec.Struct, gc=False):
    metadata: _Uid


_object = msgspec.json.Decoder(_Object).decode
_identified = msgspec.json.Decoder(_Identified).decode
#: errors of reading an object with an invalid structure
UNREADABLE = (msgspec.DecodeError, RecursionError)


def owned(data: bytes) -> bool:
    """Whether the object may have owners."""
    return data.find(_OWNED) >= 0


def concerned(data: bytes) -> bool:
    """Whether the object may have owners, or may be in deletion."""
    return data.find(_OWNED) >= 0 or data.find(_GOING) >= 0


def read(data: bytes) -> Metadata:
    """Raises one of UNREADABLE."""
    found = _object(data)
    metadata = found.metadata
    owners = metadata.owner_references
    return Metadata(
        metadata.uid,
        metadata.resource_version,
        found.api_version,
        found.kind,
        tuple([_reference(owner) for owner in elements(owners)]) if owners else (),
        tuple(metadata.finalizers) if metadata.finalizers else (),
        metadata.deletion_timestamp is not None,
    )


def uid_of(data: bytes) -> str:
    """Raises one of UNREADABLE."""
    return _identified(data).metadata.uid


def _reference(owner: _Owner) -> Reference:
    return Reference(
        intern(owner.api_version), intern(owner.kind), owner.name, owner.uid, bool(owner.block_owner_deletion)
    )
