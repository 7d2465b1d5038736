"""base64 (upstream: cel-go ``ext/encoders.go``)."""

from __future__ import annotations

import base64
import binascii

from kapi.cel.errors import EvaluationError
from kapi.cel.functions import declare as d


def decode(text: str) -> bytes:
    """Decodes base64 with or without padding."""
    try:
        return base64.b64decode(
            text + "=" * (-len(text.rstrip("=")) % 4 if not text.endswith("=") else 0), validate=True
        )
    except (binascii.Error, ValueError):
        raise EvaluationError("illegal base64 data") from None


ENCODERS = [
    d("base64.decode", "base64_decode_string", "(string) bytes", decode),
    d("base64.encode", "base64_encode_bytes", "(bytes) string", lambda value: base64.b64encode(value).decode()),
]
