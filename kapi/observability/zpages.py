"""``/statusz`` and ``/flagz``: the server's uptime and its flags (KEP-4827, KEP-4828).

As text, or on request as an object of ``config.k8s.io``.  Upstream: apiserver ``server/statusz``, ``server/flagz``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from kapi.codecs.negotiation import CBOR, JSON, YAML, not_accepted, written_as
from kapi.endpoints.encoding import respond_tree
from kapi.machinery.lifecycles import Release
from kapi.machinery.status import NotAcceptable
from kapi.machinery.time import stamp
from kapi.machinery.tree import Object
from kapi.machinery.version import VERSION
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.serving.generic import GenericServer

_COMPONENT = "apiserver"
_PLAIN = b"text/plain; charset=utf-8"
_HEADER = """
{component} {page}
Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for \
debugging purposes only.
"""
GROUP = "config.k8s.io"
VERSIONS = {"v1alpha1": True, "v1beta1": False}  # version -> deprecated
_TEXT = ("text/plain", "text/*", "*/*")
#: first parts of paths that are not for debugging, and not listed
_OTHERS = frozenset({"", "apis", "api", "openid", "openapi", ".well-known"})
_OBJECTS = (JSON, YAML)  # media types of objects


def _wanted(ctx: RequestContext, kind: str) -> tuple[str, str]:
    """(media type, version) of the answer; the version is "" for text.  Raises NotAcceptable."""
    accept = ctx.header("accept") or ""
    objects = (*_OBJECTS, CBOR) if ctx.cbor else _OBJECTS
    for clause in accept.split(",") if accept.strip() else ("text/plain",):
        media, *rest = (part.strip() for part in clause.split(";"))
        parameters = dict(part.partition("=")[::2] for part in rest)
        if media in _TEXT:
            return "text/plain", ""
        if media not in objects and media != "application/*":
            continue
        version = parameters.get("v", "")
        if (parameters.get("g"), parameters.get("as")) == (GROUP, kind) and version in VERSIONS:
            return media.replace("*", "json"), version
    raise not_accepted((*_OBJECTS, "text/plain", *objects[len(_OBJECTS) :]))


def page_version(ctx: RequestContext, name: str) -> tuple[str, str]:
    """(group, version) of the requested object; both are empty for text, and for refused requests."""
    try:
        _, version = _wanted(ctx, name.capitalize())
    except NotAcceptable:
        version = ""
    return (GROUP if version else "", version)


class Page:
    """A page: ``text`` makes the text below the heading, ``fields`` the fields of the object.

    ``cbor``: the object is also available as CBOR.
    """

    def __init__(
        self, name: str, text: Callable[[], str], fields: Callable[[], Mapping[str, object]], cbor: bool
    ) -> None:
        self.name, self.kind = name, name.capitalize()
        self._text, self._fields, self._cbor = text, fields, cbor

    def handle(self, ctx: RequestContext) -> Response:
        ctx.cbor = self._cbor
        media, version = _wanted(ctx, self.kind)
        if not version:
            text = _HEADER.format(component=_COMPONENT, page=self.name) + self._text()
            return Response(200, text.encode(), _PLAIN)
        if VERSIONS[version]:
            ctx.warn(f"This version of the {self.name} endpoint is deprecated. Please use a newer version.")
        tree = {
            "kind": self.kind,
            "apiVersion": f"{GROUP}/{version}",
            "metadata": {"name": _COMPONENT},
            **self._fields(),
        }
        return respond_tree(ctx, 200, tree, written_as(media, pretty=False))


def install_statusz(
    server: GenericServer, emulated: Release, clock: Callable[[], float] = time.time, cbor: bool = False
) -> None:
    """``clock`` returns unix seconds; now counts as the start of the server."""
    started = clock()

    def paths() -> list[str]:
        first = {path.split("/")[1] for path in server.listed_paths()}
        return [f"/{name}" for name in sorted(first - _OTHERS)]

    def fields() -> Object:
        return {
            "startTime": stamp(int(started)),
            "uptimeSeconds": int(clock() - started),
            "goVersion": VERSION["goVersion"],
            "binaryVersion": VERSION["gitVersion"].removeprefix("v"),
            "emulationVersion": str(emulated),
            "paths": paths(),
        }

    def text() -> str:
        found = fields()
        minutes, seconds = divmod(found["uptimeSeconds"], 60)
        lines = {
            "Started": time.strftime("%a %b %e %H:%M:%S UTC %Y", time.gmtime(started)),
            "Up": f"{minutes // 60} hr {minutes % 60:02d} min {seconds:02d} sec",
            "Go version": found["goVersion"],
            "Binary version": found["binaryVersion"],
            "Emulation version": found["emulationVersion"],
            "Paths": " ".join(found["paths"]),
        }
        return "\n" + "".join(f"{name}: {value}\n" for name, value in lines.items())

    server.app.route("/statusz")(Page("statusz", text, fields, cbor).handle)


def install_flagz(server: GenericServer, settings: Mapping[str, str], cbor: bool = False) -> None:
    """``settings`` are the values of all flags, without secrets."""
    text = "".join(f"{name}={value}\n" for name, value in sorted(settings.items()))
    server.app.route("/flagz")(Page("flagz", lambda: text, lambda: {"flags": dict(settings)}, cbor).handle)
