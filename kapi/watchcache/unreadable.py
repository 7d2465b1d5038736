"""Objects whose stored bytes cannot be decoded.  Reads leave them out; get and delete report them.

Upstream: apiserver ``storage/errors.go`` (NewCorruptObjError), KEP-3926.
"""

from __future__ import annotations

import msgspec
import orjson

from kapi.machinery.gvk import GroupResource
from kapi.machinery.status import InternalError

_HEAD_BYTES = 1024  # the stored form has its revision within so many bytes
_CORRUPT = 7  # upstream's ErrCodeCorruptObj
_SEALED = b"k8s:enc:"  # the store passes data on like this when no provider can decrypt it
_NO_KEY = "no key of the encryption configuration decrypts it"


class Unreadable(InternalError):
    """An object that exists but cannot be decoded; ``key`` is relative to its resource, ``revision`` 0 when unknown."""

    def __init__(self, resource: str, key: str, revision: int, why: str) -> None:
        if why is _NO_KEY:
            problem = f"data from the storage is not transformable revision=0: {why}"
        else:
            problem = f"object not decodable revision={revision}: {why}"
        text = (
            f"StorageError: corrupt object, Code: {_CORRUPT}, Key: /registry/{resource}/{key}, ResourceVersion: 0, "
            f"AdditionalErrorMsg: {problem}"
        )
        super().__init__(f"Internal error occurred: {text}", details={"causes": [{"message": text}]})
        self.resource = resource
        self.key = key
        self.revision = revision
        self.why = why
        self.is_former = False  # whether it is an earlier state of the object, not the present one

    @classmethod
    def of(cls, resource: GroupResource, key: str, revision: int, why: str) -> Unreadable:
        name = f"{resource.group}/{resource.resource}" if resource.group else resource.resource
        return cls(name, key, revision, why)

    def again(self) -> Unreadable:
        """A copy to raise: a stored exception would collect tracebacks."""
        return Unreadable(self.resource, self.key, self.revision, self.why)

    def former(self) -> Unreadable:
        """Marks it as an earlier state; returns itself."""
        self.is_former = True
        return self


class _Metadata(msgspec.Struct):
    resourceVersion: str
    name: str
    namespace: str | None = None
    labels: dict[str, str] | None = None


class _Stored(msgspec.Struct):
    """The fields that all readers need; of the others only the syntax is checked."""

    kind: str
    apiVersion: str
    metadata: _Metadata


_decode = msgspec.json.Decoder(_Stored).decode


def problem_of(data: bytes, revision: int, name: str) -> str:
    """Why bytes are not the stored form of an object; "" when they are.

    Cheap enough for every object that is loaded and every change.  It accepts numbers too large for a float64; these are found
    when the object is decoded.
    """
    if (
        not data.startswith(b'{"kind":')
        or data.find(b'"metadata":{"resourceVersion":"%d"' % revision, 0, _HEAD_BYTES) < 0
    ):
        return _NO_KEY if data.startswith(_SEALED) else "not in the form that is stored"
    try:
        try:
            metadata = _decode(data).metadata
            if not data.isascii():
                data.decode()
        except RecursionError:  # msgspec's limit on nesting includes the frames of the callers; orjson's does not
            metadata = msgspec.convert(orjson.loads(data), _Stored).metadata
    except ValueError as error:
        return str(error)
    return "" if metadata.name == name else "it has another name"
