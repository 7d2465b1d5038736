"""Formats of strings in schemas: texts that have one, and their nearest neighbours that have not."""

from __future__ import annotations

import pytest

from kapi.schema.structural.formats import recognized, valid


@pytest.mark.parametrize(
    ("format", "good", "bad"),
    [
        ("bsonobjectid", ["507f1f77bcf86cd799439011"], ["507f1f77bcf86cd79943901", "507f1f77bcf86cd79943901g"]),
        ("uri", ["https://example.com/a?b#c", "/a", "a:b"], ["", "%zz", "://"]),
        ("email", ["a@example.com", "A <a@example.com>"], ["a", "@example.com"]),
        ("hostname", ["a", "example.com", "a-b.example.com", "x" * 63, "xn--bcher-kva.example"],
         ["", "-a", "a_b", "x" * 64, ".".join(["x" * 63] * 4) + ".x"]),
        ("ipv4", ["1.2.3.4", "01.002.3.4", "::ffff:1.2.3.4"], ["1.2.3", "1.2.3.256", "::1", "1.2.3.4%a"]),
        ("ipv6", ["::1", "2001:db8::1", "::ffff:1.2.3.4"], ["1.2.3.4", "::g", "fe80::1%eth0"]),
        ("cidr", ["1.2.3.4/0", "1.2.3.4/32", "::1/128"], ["1.2.3.4", "1.2.3.4/33", "::1/129", "1.2.3.4/", "a/8", "::1/-1"]),
        ("mac", ["01:23:45:67:89:ab", "01-23-45-67-89-AB", "0123.4567.89ab", "01:23:45:67:89:ab:cd:ef"],
         ["01:23:45:67:89", "01:23-45:67:89:ab", "0123.4567", "01:23:45:67:89:ag"]),
        ("uuid", ["123e4567-e89b-12d3-a456-426614174000", "123E4567E89B12D3A456426614174000"],
         ["123e4567-e89b-12d3-a456-42661417400", "g23e4567-e89b-12d3-a456-426614174000"]),
        ("uuid3", ["123e4567-e89b-32d3-a456-426614174000"], ["123e4567-e89b-42d3-a456-426614174000"]),
        ("uuid4", ["123e4567-e89b-42d3-a456-426614174000"],
         ["123e4567-e89b-52d3-a456-426614174000", "123e4567-e89b-42d3-c456-426614174000"]),
        ("uuid5", ["123e4567-e89b-52d3-b456-426614174000"], ["123e4567-e89b-52d3-7456-426614174000"]),
        ("isbn10", ["0-306-40615-2", "080442957X"], ["0306406153", "030640615", "080442957x"]),
        ("isbn13", ["978-0-306-40615-7"], ["9780306406158", "978030640615"]),
        ("isbn", ["0306406152", "9780306406157"], ["0306406153", "9780306406158"]),
        ("creditcard", ["4111 1111 1111 1111", "378282246310005", "5555-5555-5555-4444", "4111111111111152", "4012888888881881",
                        "4000000000000051"],
         ["4111111111111112", "411111111111111", "1111111111111117", "4111111111111151", "4012888888881880"]),
        ("ssn", ["123-45-6789", "123 45 6789"], ["123456789", "123-45-678"]),
        ("hexcolor", ["#fff", "ABCDEF"], ["#ffff", "#ggg"]),
        ("rgbcolor", ["rgb(0,100,255)", "rgb( 1 , 2 , 3 )"], ["rgb(0,100,256)", "rgb(0,100)", "rgb(01,2,3)"]),
        ("byte", ["YQ==", "YWJj"], ["", "YQ=", "YQ", "Y\u00e9==", "YWJj===="]),
        ("date", ["2024-02-29", "0000-02-29"], ["2023-02-29", "2024-13-01", "2024-1-1"]),
        ("date-time", ["2024-02-29T00:00:00Z", "2024-02-29t23:59:59.123+01:00", "0000-01-01T00:00:00Z",
          "2024-02-29T00:00:00+25:00", "2024-02-29T00:00:00ztx"],
         ["2024-02-29", "2023-02-29T00:00:00Z", "2024-02-29T24:00:00Z", "2024-02-29T00:00:00", "2024-02-29T00:00:60Z"]),
        ("duration", ["1h2m", "-1.5s", "3 days", "2 Weeks"], ["1", "a", "1 fortnight"]),
        ("k8s-short-name", ["a-1"], ["a.b", "A"]),
        ("k8s-long-name", ["a.b"], ["a..b", "A"]),
        ("password", ["", "x"], []),
        ("quantity", ["x"], []),
        ("unknown", ["", "x"], []),
    ],
)  # fmt: skip
def test_format(format: str, good: list[str], bad: list[str]) -> None:
    assert [text for text in good if not valid(format, text)] == []
    assert [text for text in bad if valid(format, text)] == []


@pytest.mark.parametrize(
    ("type_", "formats", "others"),
    [
        ("string", ["uri", "date-time", "datetime"], ["int32", "double", "odd"]),
        ("", ["uri"], ["int32"]),
        ("integer", ["int32", "int64"], ["float", "uri"]),
        ("number", ["float", "double"], ["int32", "uri"]),
        ("boolean", [], ["uri", "int32", "double"]),
    ],
)
def test_formats_of_a_type(type_: str, formats: list[str], others: list[str]) -> None:
    assert all(recognized(format, type_) for format in formats)
    assert not any(recognized(format, type_) for format in others)
