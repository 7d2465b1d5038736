"""The directives of strategic merge patches (upstream: apimachinery ``strategicpatch``)."""

from __future__ import annotations

DIRECTIVE = "$patch"

RETAIN_KEYS = "$retainKeys"

DELETE_FROM = "$deleteFromPrimitiveList"

ELEMENT_ORDER = "$setElementOrder"
