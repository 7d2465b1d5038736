"""Descriptions of columns that are those of the types' fields stand in the derived definitions alone."""

from __future__ import annotations

from kapi.endpoints.transform import description_of
from kapi.resources.catalogue import BUILT_IN
from kapi.resources.core import services
from kapi.resources.previews import PREVIEWS
from kapi.schema.builtin import descriptions

_COLUMNS = [column for row in (*BUILT_IN, *PREVIEWS) if row.table for column in row.table.columns]
_SHARED = {"Name", "Age"}  # columns of nearly every table, whose texts a server needs at once


def test_every_description_is_found() -> None:
    assert all(isinstance(description_of(column), str) for column in _COLUMNS)
    pods = {column.name: description_of(column) for column in services.RESOURCE.table.columns}
    assert pods["Cluster-IP"].startswith("clusterIP is the IP address of the service")


def test_no_long_description_is_written_twice() -> None:
    derived = {text for texts in descriptions().values() for text in texts.values()}
    again = [
        column.name
        for column in _COLUMNS
        if isinstance(column.description, str) and len(column.description) > 80 and column.description in derived
    ]
    assert set(again) <= _SHARED
