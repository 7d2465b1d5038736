"""Bytes and trees: JSON, YAML, media types (upstream: apimachinery ``pkg/runtime/serializer``).

Here belongs the code for formats, without knowledge of types.  Not here: decoding against a type, and protobuf, whose fields are
the fields of a type (``kapi.schema``).
Start reading with ``reading.py`` and ``json_reading.py``.
"""
