"""Who counts as authenticated."""

from __future__ import annotations

import pytest

from kapi.authentication.interface import with_authenticated_group
from kapi.request.user import ALL_AUTHENTICATED, ALL_UNAUTHENTICATED, ANONYMOUS, UserInfo


@pytest.mark.parametrize(
    ("user", "groups"),
    [
        (UserInfo("a", groups=("g",)), ("g", ALL_AUTHENTICATED)),
        (UserInfo("a", groups=(ALL_AUTHENTICATED,)), (ALL_AUTHENTICATED,)),
        (UserInfo("a", groups=(ALL_UNAUTHENTICATED,)), (ALL_UNAUTHENTICATED,)),
        (UserInfo(ANONYMOUS), ()),
    ],
)
def test_who_is_authenticated_is_in_one_of_the_two_groups(user: UserInfo, groups: tuple[str, ...]) -> None:
    assert tuple(with_authenticated_group(user).groups) == groups
