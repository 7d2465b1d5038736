"""URLs of stores."""

from __future__ import annotations

import tempfile

import pytest

from kapi.store.address import Address, parse


def test_unix_socket() -> None:
    assert parse("unix:///run/valkey.sock?db=2") == Address(path="/run/valkey.sock", database=2)


def test_tcp_with_user_and_database() -> None:
    address = parse("redis://kapi:p%40ss@db.example.com/3")
    assert (address.hosts, address.username, address.password, address.database) == (
        (("db.example.com", 6379),),
        "kapi",
        "p@ss",
        3,
    )


def test_password_alone_and_ipv6() -> None:
    address = parse("redis://:secret@[::1]:7000")
    assert (address.hosts, address.username, address.password) == ((("::1", 7000),), "", "secret")


def test_tls() -> None:
    address = parse("rediss://h?ca=/ca.pem&cert=/c.pem&key=/k.pem&server-name=other")
    assert (address.tls, address.ca, address.cert, address.key, address.server_name) == (
        True,
        "/ca.pem",
        "/c.pem",
        "/k.pem",
        "other",
    )


def test_sentinels() -> None:
    address = parse("redis+sentinel://a,b:26380/mymaster/1")
    assert (address.hosts, address.master, address.database) == ((("a", 26379), ("b", 26380)), "mymaster", 1)


def test_sentinels_with_tls_and_a_login_of_their_own() -> None:
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("s3cret\n")
        file.flush()
        query = f"sentinel-username=watcher&sentinel-password-file={file.name}"
        address = parse(f"rediss+sentinel://me:pass@a/mymaster?{query}")
        assert (address.tls, address.hosts, address.username) == (True, (("a", 26379),), "me")
        assert address.sentinel_login == ("watcher", "s3cret")
        with pytest.raises(ValueError, match="unknown option 'sentinel-password-file'"):
            parse(f"redis://a?{query}")


def test_password_from_a_file() -> None:
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("s3cret\n")
        file.flush()
        assert parse(f"redis://u@h?password-file={file.name}").password == "s3cret"


def test_no_password_in_texts() -> None:
    address = parse("redis://u:secret@h")
    assert "secret" not in str(address)
    assert "secret" not in repr(address)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://h", "unknown scheme 'http'"),
        ("unix://relative/path", "absolute"),
        ("redis://", "host is missing"),
        ("redis://a,b", "several hosts"),
        ("redis://h/x", "must be a number"),
        ("redis://h/1/2", "too many"),
        ("redis://h?color=red", "unknown option 'color'"),
        ("redis+sentinel://h", "name of the Sentinel service"),
        ("redis://h?password-file=/nowhere/x", "password-file"),
        ("redis+sentinel://h/m?sentinel-password-file=/nowhere/x", "sentinel-password-file"),
        ("redis://h?ca=/ca.pem", "ca= is for TLS"),
        ("rediss://h?key=/k.pem", "key= needs cert="),
    ],
)
def test_refusals(url: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse(url)
