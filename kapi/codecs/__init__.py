"""Bytes and trees: JSON, YAML, media types (upstream: apimachinery ``pkg/runtime/serializer``).

Here belongs what knows a format and no type.  Not here: decoding against a type, and protobuf, whose fields are those of a
type (``kapi.schema``).
Start reading with ``reading.py`` and ``json_reading.py``.
"""
