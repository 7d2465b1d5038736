"""Texts that are kept compressed."""

from __future__ import annotations

import gzip
import random
import zlib
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from kapi.request import packed as module
from kapi.request.packed import Packer, packed
from kapi.request.response import SLICE

PIECES = st.lists(st.binary(max_size=50), max_size=20)


def packer_of(pieces: list[bytes]) -> Packer:
    packer = Packer()
    for piece in pieces:
        packer.add(piece)
    return packer


@given(st.lists(PIECES, max_size=5))
def test_texts_are_joined_as_they_were_added(texts: list[list[bytes]]) -> None:
    whole = b"".join(b"".join(pieces) for pieces in texts)
    with patch.object(module, "SLICE", 64):
        packer = Packer()
        for pieces in texts:
            packer.add(b"")
            packer.join(packer_of(pieces))
        assert (packer.size, b"".join(packer.slices())) == (len(whole), whole)
        found = packer.packed()
    assert (found.size, found.text(), gzip.decompress(found.gzip)) == (len(whole), whole, whole)
    assert zlib.decompress(found.gzip, 31) == whole
    assert all(0 < len(part) <= 64 for part in found)


def test_a_text_is_cut_into_slices_of_which_each_can_be_read() -> None:
    text = random.Random(1).randbytes(3 * SLICE + 5)
    found = packed(text)
    assert [len(part) for part in found] == [SLICE] * 3 + [5]
    assert found[2] == text[2 * SLICE : 3 * SLICE]


def test_what_is_read_again_and_again_is_decompressed_once_and_little_is_kept() -> None:
    found = packed(b"".join(b"%09d" % number for number in range(1_000_000)))
    assert len(found.gzip) < found.size / 3
    assert found[0] is found[0]
    first = found[0]
    for part in found:
        assert part
    assert found[0] is not first
