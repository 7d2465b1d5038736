"""Checks type and metadata of manifests as Go decodes it (upstream: cli-runtime ``resource/metadata_decoder.go``).

Only metadata of an unusual form needs the server's types, whose import takes longer than most commands.
"""

from __future__ import annotations

import re

from kapi.kubectl.messages import CommandError
from kapi.machinery.tree import Object, Tree

_TEXTS = frozenset(("generateName", "name", "namespace", "resourceVersion", "uid"))
_TIME = re.compile(r"\d{4}-[01]\d-[0-2]\dT[01]\d:[0-5]\d:[0-5]\dZ")


def check_object(obj: Object) -> None:
    """Raises CommandError with Go's text for an apiVersion or metadata that no object can have."""
    metadata, version = obj.get("metadata"), obj.get("apiVersion")
    if version is not None and not isinstance(version, str):
        from kapi.codecs.json_reading import kind_of

        kind, field = kind_of(version), "metadataOnlyObject.TypeMeta.apiVersion"
        raise CommandError(f"json: cannot unmarshal {kind} into Go struct field {field} of type string")
    if metadata is None or isinstance(metadata, dict) and all(map(_usual, metadata, metadata.values())):
        return
    from kapi.kubectl.local_patch import decoded

    try:
        decoded({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    except CommandError as error:
        raise CommandError(str(error).replace("ConfigMap.metadata", "metadataOnlyObject.metadata")) from None


def check_names(obj: Object) -> None:
    """As ``check_object``, for an item of a list: only of what commands use.  The server reads the rest of its metadata."""
    metadata = obj.get("metadata")
    if isinstance(metadata, dict):
        metadata = {name: value for name, value in metadata.items() if name in (*_TEXTS, "labels", "annotations")}
    check_object({**obj, "metadata": metadata})


def _usual(name: str, value: Tree) -> bool:
    """Whether the value is one of the type; only common ones are known."""
    if value is None or name in _TEXTS:
        return value is None or isinstance(value, str)
    if name in ("labels", "annotations"):
        return isinstance(value, dict) and all(one is None or isinstance(one, str) for one in value.values())
    if name == "finalizers":
        return isinstance(value, list) and all(isinstance(one, str) for one in value)
    return name == "creationTimestamp" and isinstance(value, str) and bool(_TIME.fullmatch(value))


def check_type(obj: Object) -> None:
    """Raises CommandError for an item of a list without kind or version."""
    for name, missing in (("kind", "Kind"), ("apiVersion", "apiVersion")):
        value = obj.get(name)
        if not value or not isinstance(value, str):
            raise CommandError(
                'unable to get type info from the object "*unstructured.Unstructured": '
                f"Object '{missing}' is missing in 'object has no {name} field{' ' if name == 'kind' else ''}'"
            )
