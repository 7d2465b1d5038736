"""Query options of the connecting subresources (upstream: apimachinery ``conversion/queryparams`` and ``core/v1`` options)."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlencode

from kapi.admission.interface import CONNECT, Attributes
from kapi.endpoints.scope import RequestScope
from kapi.machinery import field, status
from kapi.machinery.field import FieldError
from kapi.machinery.gvk import GroupKind, GroupVersionKind
from kapi.request.context import RequestContext

Object = dict[str, Any]
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}\Z", re.ASCII).match
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)\Z", re.ASCII).match


def flag(ctx: RequestContext, name: str) -> bool:
    """Present without a value, or with any but "false" and "0"."""
    values = ctx.query.get(name)
    return values is not None and (not values or values[0].lower() not in ("false", "0"))


def number(ctx: RequestContext, name: str) -> int | None:
    """Raises BadRequest for what is no number."""
    text = ctx.first(name)
    if not text:
        return None
    if not _INTEGER(text):
        raise status.bad_request(f"strconv.ParseInt: parsing {field.quote(text)}: invalid syntax")
    return int(text)


def log_options(ctx: RequestContext, name: str) -> Object:
    """The PodLogOptions of a request.  Raises BadRequest and Invalid."""
    options: Object = {
        key: number(ctx, key) for key in ("sinceSeconds", "tailLines", "limitBytes") if number(ctx, key) is not None
    }
    options |= {key: True for key in ("follow", "previous", "timestamps") if flag(ctx, key)}
    if flag(ctx, "insecureSkipTLSVerifyBackend"):
        options["insecureSkipTLSVerifyBackend"] = True
    for key in ("container", "sinceTime", "stream"):
        if ctx.first(key):
            options[key] = ctx.first(key)
    since = options.get("sinceTime")
    if since is not None and not _TIME(since):
        layout = "2006-01-02T15:04:05Z07:00"
        raise status.bad_request(
            f'parsing time {field.quote(since)} as "{layout}": cannot parse {field.quote(since)} as "2006"'
        )
    errors = list(_log_errors(options))
    if errors:
        raise status.invalid(GroupKind("", "PodLogOptions"), name, errors)
    return options


def _log_errors(options: Object) -> list[FieldError]:
    errors = []
    if options.get("tailLines", 0) < 0:
        errors.append(field.invalid("tailLines", options["tailLines"], "must be greater than or equal to 0"))
    if options.get("limitBytes", 1) < 1:
        errors.append(field.invalid("limitBytes", options["limitBytes"], "must be greater than 0"))
    if "sinceSeconds" in options and "sinceTime" in options:
        errors.append(field.forbidden("[]", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
    elif options.get("sinceSeconds", 1) < 1:
        errors.append(field.invalid("sinceSeconds", options["sinceSeconds"], "must be greater than 0"))
    if "stream" in options:
        errors.append(field.forbidden("stream", "may not be specified"))
    return errors


def log_query(options: Object) -> bytes:
    """The same options as the kubelet reads them."""
    keys = ("follow", "limitBytes", "previous", "sinceSeconds", "sinceTime", "tailLines", "timestamps")
    pairs = [(key, "true" if options[key] is True else str(options[key])) for key in keys if key in options]
    return urlencode(pairs).encode()


def stream_options(ctx: RequestContext, kind: str) -> Object:
    """PodExecOptions and PodAttachOptions."""
    options: Object = {key: True for key in ("stdin", "stdout", "stderr", "tty") if flag(ctx, key)}
    if ctx.first("container"):
        options["container"] = ctx.first("container")
    if kind == "PodExecOptions" and ctx.query.get("command"):
        options["command"] = list(ctx.query["command"])
    return options


def stream_query(options: Object) -> bytes:
    """As the kubelet reads them: upstream's names of the streams, sorted."""
    names = {"stdin": "input", "stdout": "output", "stderr": "error", "tty": "tty"}
    pairs = [(names[key], "1") for key in names if options.get(key)]
    pairs += [("command", part) for part in options.get("command") or ()]
    return urlencode(sorted(pairs, key=lambda pair: pair[0])).encode()


async def admit(ctx: RequestContext, scope: RequestScope, kind: str, options: Object) -> None:
    """Asks admission about the connection.  Raises what a plugin refuses with."""
    info, user, sub = ctx.info, ctx.user, scope.subresource
    assert info is not None and user is not None and sub is not None
    attributes = Attributes(
        CONNECT,
        GroupVersionKind("", "v1", kind),
        scope.gvr,
        info.namespace,
        info.name,
        {"kind": kind, "apiVersion": "v1", **options},
        None,
        user,
        subresource=sub.name,
        warnings=ctx.warnings,
        annotations=ctx.annotations,
    )
    await scope.store.admission.admit(attributes)
    await scope.store.admission.validate(attributes)
