"""The head of an answer of HTTP/1.1 behind interim ones."""

from __future__ import annotations

import pytest

from kapi.wire.answer import BadAnswer, final_head


def head(code: int) -> bytes:
    return b"HTTP/1.1 %d X\r\na: b\r\n\r\n" % code


@pytest.mark.parametrize("code", [100, 102, 103, 199])
def test_interim_answers_are_passed_over(code: int) -> None:
    answer, rest = final_head(head(code) + head(204) + b"rest")
    assert answer is not None and (answer.code, rest) == (204, b"rest")
    assert final_head(head(code)) == (None, b"")
    assert final_head(head(code) + head(200)[:-1]) == (None, head(200)[:-1])


@pytest.mark.parametrize("code", [200, 204, 404, 599])
def test_others_are_final(code: int) -> None:
    answer, rest = final_head(head(code) + head(200))
    assert answer is not None and (answer.code, rest) == (code, head(200))


def test_nothing_may_switch_protocols() -> None:
    with pytest.raises(BadAnswer, match="unexpected 101 Switching Protocols"):
        final_head(head(100) + head(101))
