"""Objects whose stored bytes cannot be decoded: kept apart, so that readers skip them and can report them.

Upstream: apiserver ``storage/errors.go`` (NewCorruptObjError), KEP-3926.
"""

from __future__ import annotations

import msgspec
import orjson

from kapi.machinery.gvk import GroupResource
from kapi.machinery.status import InternalError

_HEAD_BYTES = 1024  # bytes within which the stored form has its revision
_CORRUPT = 7  # upstream's code
_SEALED = b"k8s:enc:"  # what the store hands on when no provider decrypts it
_NO_KEY = "no key of the encryption configuration decrypts it"


class Unreadable(InternalError):
    """An object that is there and cannot be read; ``key`` is relative to its resource, ``revision`` 0 when unknown."""

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
        self.is_former = False  # it is a former state of the object, not the one there is now

    @classmethod
    def of(cls, resource: GroupResource, key: str, revision: int, why: str) -> Unreadable:
        name = f"{resource.group}/{resource.resource}" if resource.group else resource.resource
        return cls(name, key, revision, why)

    def again(self) -> Unreadable:
        """The same, to be raised once more: an exception that is kept would gather tracebacks."""
        return Unreadable(self.resource, self.key, self.revision, self.why)

    def former(self) -> Unreadable:
        self.is_former = True
        return self


class _Metadata(msgspec.Struct):
    resourceVersion: str
    name: str
    namespace: str | None = None
    labels: dict[str, str] | None = None


class _Stored(msgspec.Struct):
    """What all readers rely on; the rest is only looked at as far as syntax goes."""

    kind: str
    apiVersion: str
    metadata: _Metadata


_decode = msgspec.json.Decoder(_Stored).decode


def problem_of(data: bytes, revision: int, name: str) -> str:
    """Why bytes are not the stored form of an object; "" when they are.

    Cheap enough for every object that is loaded and every change.  A number beyond a float64 passes: who decodes such an
    object finds out.
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
        except RecursionError:  # msgspec counts the caller's frames, too; a tree has no such bound
            metadata = msgspec.convert(orjson.loads(data), _Stored).metadata
    except ValueError as error:
        return str(error)
    return "" if metadata.name == name else "it has another name"
