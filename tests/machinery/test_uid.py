"""UUIDs are random, of version 4, and never given out twice, not even by a forked process."""

from __future__ import annotations

import os
import uuid

from kapi.machinery.uid import new_uid


def test_uids_are_of_version_4_and_different() -> None:
    made = [new_uid() for _ in range(2000)]
    assert len(set(made)) == 2000
    assert all(uuid.UUID(text).version == 4 and str(uuid.UUID(text)) == text for text in made)
    assert {uuid.UUID(text).variant for text in made} == {uuid.RFC_4122}


def test_a_forked_process_gives_out_others() -> None:
    new_uid()  # there is some in store
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.write(writing, "\n".join(new_uid() for _ in range(300)).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        theirs = set(answer.read().split("\n"))
    os.waitpid(child, 0)
    assert len(theirs) == 300 and not theirs & {new_uid() for _ in range(300)}
