"""Requests of an authenticating proxy: its certificate vouches for the headers.

Upstream: apiserver ``request/headerrequest``.  Without the proxy's client certificate the headers mean nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import unquote

from cryptography.x509.oid import NameOID

from kapi.authentication.certificates import CertificateAuthority, peer_chain
from kapi.authentication.client_certificate import certificate_subject
from kapi.authentication.interface import AuthenticationError
from kapi.request.context import RequestContext
from kapi.request.headers import (
    all_headers,
    first_header,
    headers_with_prefix,
    remove_header,
    remove_headers_with_prefix,
)
from kapi.request.user import UserInfo


class FrontProxyAuthenticator:
    """``allowed_names`` are common names of the proxy's certificate; empty means any that the CA signed."""

    def __init__(
        self,
        authority: CertificateAuthority,
        allowed_names: Sequence[str] = (),
        user_headers: Sequence[str] = ("X-Remote-User",),
        uid_headers: Sequence[str] = (),
        group_headers: Sequence[str] = ("X-Remote-Group",),
        extra_prefixes: Sequence[str] = ("X-Remote-Extra-",),
    ) -> None:
        self.authority = authority
        self.allowed_names = frozenset(allowed_names)
        self.user_headers = tuple(user_headers)
        self.uid_headers = tuple(uid_headers)
        self.group_headers = tuple(group_headers)
        self.extra_prefixes = tuple(extra_prefixes)

    def authenticate(self, ctx: RequestContext) -> UserInfo | None:
        chain = peer_chain(ctx)
        if not chain:
            return None
        self.authority.verify(chain)
        if self.allowed_names:
            subject = certificate_subject(chain[0])
            names = [str(item.value) for item in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
            if not names or names[-1] not in self.allowed_names:
                raise AuthenticationError("x509: subject with cn is not in the allowed list")
        user = self._user(ctx)
        if user is not None:
            self._clear(ctx)
        return user

    def _user(self, ctx: RequestContext) -> UserInfo | None:
        name = next((value for value in (first_header(ctx, each) for each in self.user_headers) if value), "")
        if not name:
            return None
        uid = next((value for value in (first_header(ctx, each) for each in self.uid_headers) if value), "")
        groups = tuple(value for header in self.group_headers for value in all_headers(ctx, header) if value)
        extra: dict[str, tuple[str, ...]] = {}
        for prefix in self.extra_prefixes:
            for escaped, values in headers_with_prefix(ctx, prefix):
                key = unescape_key(escaped)
                extra[key] = extra.get(key, ()) + tuple(values)
        return UserInfo(name, uid=uid, groups=groups, extra=extra)

    def _clear(self, ctx: RequestContext) -> None:
        for header in (*self.user_headers, *self.uid_headers, *self.group_headers):
            remove_header(ctx, header)
        for prefix in self.extra_prefixes:
            remove_headers_with_prefix(ctx, prefix)


def unescape_key(key: str) -> str:
    """A percent-encoded key of an extra header; kept as it stands when an escape is broken."""
    pieces = key.split("%")
    if all(len(piece) >= 2 and all(char in "0123456789abcdefABCDEF" for char in piece[:2]) for piece in pieces[1:]):
        return unquote(key, errors="replace")
    return key
