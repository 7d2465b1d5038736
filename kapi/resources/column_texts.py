"""What tables say of their columns: texts of their own, or those of fields in the derived definitions."""

from __future__ import annotations

import functools

from kapi.resources.catalogue import BUILT_IN
from kapi.resources.definition import Column, FieldText
from kapi.resources.previews import PREVIEWS
from kapi.schema.builtin import field_texts


def description_of(column: Column) -> str:
    text = column.description
    return text if isinstance(text, str) else _texts()[text]


@functools.cache
def _texts() -> dict[FieldText, str]:
    """The texts of all columns, found together: the document that contains them is too large to be kept."""
    tables = [row.table for row in (*BUILT_IN, *PREVIEWS) if row.table is not None]
    texts = (column.description for table in tables for column in table.columns)
    return field_texts(text for text in texts if isinstance(text, FieldText))
