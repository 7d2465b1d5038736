"""``--token-auth-file``: token,user,uid[,"group,group"] (upstream: apiserver ``token/tokenfile``)."""

from __future__ import annotations

import hashlib
import io
import secrets

from kapi.authentication.interface import Authenticated
from kapi.request.user import UserInfo


class StaticTokenAuthenticator:
    """Tokens are kept and looked up by a keyed digest, so that neither the lookup's time nor memory reveals them."""

    def __init__(self, users: dict[str, UserInfo], api_audiences: tuple[str, ...] = ()) -> None:
        self._key = secrets.token_bytes(32)
        self._users = {self._digest(token): user for token, user in users.items()}
        self.api_audiences = api_audiences

    def _digest(self, token: str) -> bytes:
        return hashlib.blake2b(token.encode("utf-8", "surrogateescape"), key=self._key, digest_size=32).digest()

    def authenticate_token(self, token: str, audiences: tuple[str, ...] = ()) -> Authenticated | None:
        user = self._users.get(self._digest(token))
        return None if user is None else for_any_audience(user, self.api_audiences, audiences)


def for_any_audience(
    user: UserInfo, api_audiences: tuple[str, ...], audiences: tuple[str, ...], expires: float = 0.0
) -> Authenticated | None:
    """The result for tokens without audiences, which are valid for this API server only."""
    if not audiences:
        return Authenticated(user, api_audiences, expires)
    shared = tuple(item for item in audiences if item in api_audiences)
    return Authenticated(user, shared, expires) if shared or not api_audiences else None


def parse_token_file(text: str) -> dict[str, UserInfo]:
    """Users by token.  Raises ValueError for a row that is too short or has an empty token, and for invalid CSV."""
    import csv  # imported only when it is used

    users: dict[str, UserInfo] = {}
    try:
        rows = list(csv.reader(io.StringIO(text), skipinitialspace=True))
    except csv.Error as error:
        raise ValueError(str(error)) from None
    for number, row in enumerate(rows, 1):
        if not row:
            continue
        if len(row) < 3:
            raise ValueError(
                "token file must have at least 3 columns (token, user name, user uid), "
                f"found {len(row)} in row {number}"
            )
        if not row[0]:
            raise ValueError(f"empty token has been found in token file, record number {number}")
        groups = tuple(group.strip() for group in row[3].split(",") if group.strip()) if len(row) > 3 else ()
        users[row[0]] = UserInfo(row[1], uid=row[2], groups=groups)
    return users
