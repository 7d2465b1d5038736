"""The object in an answer of a webhook, as client-go's REST client decodes it.

Upstream: ``rest/request.go`` transformResponse, Result.Into; apimachinery ``serializer/recognizer``.
"""

from __future__ import annotations

from collections.abc import Mapping

from kapi.client.errors import from_response
from kapi.client.typed import Check
from kapi.codecs import json_reading
from kapi.codecs.reading import as_object, type_meta
from kapi.machinery.tree import Object
from kapi.wire.transport import Response


def decoded(answer: Response, method: str) -> Object:
    """The object, whatever media type the answer names.  Raises StatusError for an unsuccessful answer, ValueError for others."""
    if not 200 <= answer.code <= 206:
        raise from_response(answer, method)
    if not answer.body:
        media = answer.header(b"Content-Type") or "application/json"
        raise ValueError(f"0-length response with status code: {answer.code} and content type: {media}")
    return recognized(answer.body)


def recognized(data: bytes) -> Object:
    """The object of a text in JSON or YAML.  Raises ValueError with upstream's text."""
    try:
        if data.lstrip(b" \t\r\n").startswith(b"{"):
            tree = as_object(json_reading.loads(data))
        else:
            from kapi.codecs import yaml_reading  # seldom needed

            tree = as_object(yaml_reading.loads(data, max_bytes=3 * 1024 * 1024)[0])
    except json_reading.JSONError as error:
        raise ValueError(f"couldn't get version/kind; json parse error: {error}") from None
    type_meta(tree)
    return tree


def check_kind(tree: Object, kind: str, wanted: str, known: Mapping[tuple[str, str], Check], scheme: str) -> None:
    """Checks that the object is of ``kind`` in the apiVersion ``wanted``; what it does not say counts as that.

    ``known``: a check of the fields for each kind and apiVersion that the client knows besides Status; ``scheme`` is the name of
    upstream's table of them.  Raises ValueError.
    """
    given, found = type_meta(tree)
    given, found = given or wanted, found or kind
    fields = known.get((found, given))
    if fields is not None:
        fields(tree, kind)
    elif (found, given) != ("Status", "v1"):
        raise ValueError(f'no kind "{found}" is registered for version "{given}" in scheme "{scheme}"')
    if (found, given) != (kind, wanted):
        older, newer = (each.rpartition("/")[2] for each in (given, wanted))
        raise ValueError(f"converting ({older}.{found}) to ({newer}.{kind}): unknown conversion")
