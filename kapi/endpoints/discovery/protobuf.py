"""The aggregated discovery document in protobuf (upstream: ``k8s.io/api/apidiscovery/v2`` ``generated.proto``).

As everywhere in Kubernetes, fields that Go holds by value are written even when they are empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kapi.machinery.checkpoint import checkpoint
from kapi.machinery.each import elements
from kapi.machinery.gvk import GroupVersionKind
from kapi.machinery.tree import Object
from kapi.schema.protobuf_writing import envelope, item_of_list, list_head, message_of, varint

LIST = GroupVersionKind("apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList")
_METADATA = GroupVersionKind("meta.k8s.io", "v1", "PartialObjectMetadata")


def discovery_list(groups: Iterable[Object]) -> bytes:
    """The list of groups, made by ``documents.aggregated_group``, with the envelope of Kubernetes' protobuf."""
    return envelope(LIST, list_head({}) + b"".join([item_of_list(_group(group)) for group in elements(groups)]))


def _field(number: int, payload: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def _text(number: int, tree: Object, name: str) -> bytes:
    return _field(number, str(tree.get(name) or "").encode())


def _texts(number: int, tree: Object, name: str) -> bytes:
    return b"".join([_field(number, str(text).encode()) for text in tree.get(name) or ()])


def _many(number: int, tree: Object, name: str, write: Callable[[Object], bytes]) -> bytes:
    return b"".join([_field(number, write(item)) for item in tree.get(name) or ()])


def _group(tree: Object) -> bytes:
    return message_of(_METADATA)(tree) + _many(2, tree, "versions", _version)


def _version(tree: Object) -> bytes:
    return _text(1, tree, "version") + _many(2, tree, "resources", _resource) + _text(3, tree, "freshness")


def _resource(tree: Object) -> bytes:
    checkpoint()
    return b"".join(
        (
            _text(1, tree, "resource"),
            _response_kind(tree),
            _text(3, tree, "scope"),
            _text(4, tree, "singularResource"),
            _texts(5, tree, "verbs"),
            _texts(6, tree, "shortNames"),
            _texts(7, tree, "categories"),
            _many(8, tree, "subresources", _subresource),
        )
    )


def _subresource(tree: Object) -> bytes:
    return b"".join(
        (
            _text(1, tree, "subresource"),
            _response_kind(tree),
            _many(3, tree, "acceptedTypes", _kind),
            _texts(4, tree, "verbs"),
        )
    )


def _response_kind(tree: Object) -> bytes:
    kind = tree.get("responseKind")
    return b"" if kind is None else _field(2, _kind(kind))


def _kind(tree: Object) -> bytes:
    return _text(1, tree, "group") + _text(2, tree, "version") + _text(3, tree, "kind")
