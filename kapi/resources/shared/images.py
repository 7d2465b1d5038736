"""The tag of an image's name, which decides its default pull policy (upstream: ``pkg/util/parsers``, distribution
``reference``).
"""

from __future__ import annotations

import re

from kapi.machinery.memo import memoized

_COMPONENT = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_DOMAIN_PART = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_DOMAIN = rf"(?:{_DOMAIN_PART}(?:\.{_DOMAIN_PART})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_REFERENCE = re.compile(
    rf"((?:{_DOMAIN}/)?{_COMPONENT}(?:/{_COMPONENT})*)(?::(\w[\w.-]{{0,127}}))?"
    r"(?:@([A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*):([0-9a-fA-F]{32,}))?\Z",
    re.ASCII,
).match
_IDENTIFIER = re.compile(r"[a-f0-9]{64}\Z").match
_DIGEST_LENGTHS = {"sha256": 64, "sha384": 96, "sha512": 128}


@memoized(4096)
def tag_of(image: str) -> str:
    """The tag, ``latest`` when neither tag nor digest is given, and "" with a digest alone or for no valid name."""
    if _IDENTIFIER(image):
        return ""
    first, slash, _ = image.partition("/")
    local = not slash or not ("." in first or ":" in first or first == "localhost" or first.lower() != first)
    name = f"docker.io/{image}" if local else image
    remote = name.partition("/")[2].partition("@")[0].partition(":")[0]
    found = _REFERENCE(name)
    if found is None or remote.lower() != remote or len(found[1]) > 255:
        return ""
    algorithm, digest = found[3], found[4]
    if digest and (_DIGEST_LENGTHS.get(algorithm) != len(digest) or digest.lower() != digest):
        return ""
    return found[2] or ("" if digest else "latest")


def pull_policy(image: str) -> str:
    """The default pull policy of an image."""
    return "Always" if tag_of(image) == "latest" else "IfNotPresent"
