"""The text of a member of an object, as it was written."""

from __future__ import annotations

import pytest

from kapi.machinery.raw import member_text


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b'{"a":1,"data":{"b" : [1.50, 2]},"c":2}', b'{"b" : [1.50, 2]}'),
        (b' {"data" :  "x\\u0041" , "a":1} ', b'"x\\u0041"'),
        (b'{"data":1,"data":{"a":2}}', b'{"a":2}'),
        (b' { "a" : 1 , "data" : 2 , "b" : 3 } ', b"2"),
        (b'\n\t {\r\n "a"  :  1  ,\n\n  "data"\t:\t\t2 }', b"2"),
        (b'{"d\\u0061ta":1e2}', b"1e2"),
        (b'{"\\ud800":1,"data":[1,  2]}', b"[1,  2]"),  # half a surrogate in another key
        (b'{"a":1}', None),
        (b'{"data":', None),
        (b"[1]", None),
    ],
)
def test_a_member_keeps_its_text(data: bytes, found: bytes | None) -> None:
    assert member_text(data, "data") == found
