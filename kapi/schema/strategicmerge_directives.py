"""What a strategic merge patch says besides values: ``$patch`` and its like (upstream: apimachinery ``strategicpatch``)."""

from __future__ import annotations

DIRECTIVE = "$patch"


RETAIN_KEYS = "$retainKeys"


DELETE_FROM = "$deleteFromPrimitiveList"


ELEMENT_ORDER = "$setElementOrder"
