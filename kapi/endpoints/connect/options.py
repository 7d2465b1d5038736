"""Query options of the connecting subresources (upstream: apimachinery ``conversion/queryparams`` and ``core/v1`` options)."""

from __future__ import annotations

from urllib.parse import urlencode

from kapi.admission.interface import CONNECT, Attributes
from kapi.endpoints.options import integer
from kapi.endpoints.scope import RequestScope
from kapi.machinery import field, golang, status, time
from kapi.machinery.field import FieldError
from kapi.machinery.golang import NumberError, parse_uint
from kapi.machinery.gvk import GroupKind, GroupVersionKind
from kapi.machinery.tree import Object
from kapi.request.context import RequestContext

_ALL_STREAMS = "All"
_STREAMS = (_ALL_STREAMS, "Stderr", "Stdout")  # in this order in errors
_ZERO_TIME = "0001-01-01T00:00:00Z"


def refuse_dry_run(ctx: RequestContext) -> None:
    """Raises BadRequest."""
    if ctx.query.get("dryRun"):
        raise status.bad_request("dryRun is not supported")


def flag(ctx: RequestContext, name: str) -> bool:
    """Whether a boolean option is set: without a value, or with any but "false" and "0"."""
    values = ctx.query.get(name)
    return values is not None and (not values or values[0].lower() not in ("false", "0"))


def log_options(ctx: RequestContext, name: str, by_stream: bool = False) -> Object:
    """The PodLogOptions of a request; ``by_stream``: one stream may be asked for.  Raises BadRequest and Invalid."""
    read: Object = {
        "container": ctx.first("container") or None,
        "follow": flag(ctx, "follow") or None,
        "previous": flag(ctx, "previous") or None,
        "sinceSeconds": integer(ctx, "sinceSeconds"),
        "sinceTime": _moment(ctx, "sinceTime"),
        "timestamps": flag(ctx, "timestamps") or None,
        "tailLines": integer(ctx, "tailLines"),
        "limitBytes": integer(ctx, "limitBytes"),
        "insecureSkipTLSVerifyBackend": flag(ctx, "insecureSkipTLSVerifyBackend") or None,
        "stream": ctx.first("stream") if "stream" in ctx.query else _ALL_STREAMS if by_stream else None,
    }
    options = {key: value for key, value in read.items() if value is not None}
    errors = _log_errors(options, by_stream)
    if errors:
        raise status.invalid(GroupKind("", "PodLogOptions"), name, errors)
    return options


def _moment(ctx: RequestContext, name: str) -> str | None:
    """A time in UTC.  Raises BadRequest with the text of Go's error."""
    if name not in ctx.query:
        return None
    text = ctx.first(name)
    if text in ("", "null"):
        return _ZERO_TIME
    try:
        return time.time(text) or _ZERO_TIME
    except time.TimeError as error:
        raise status.bad_request(str(error)) from None


def forwarded_ports(ctx: RequestContext) -> list[int]:
    """The ports of a port-forward.  Raises BadRequest with the text of Go's error."""
    found = []
    for text in (part for value in ctx.query.get("ports") or () for part in value.split(",")):
        try:
            found.append(parse_uint(text, 16))
        except NumberError as error:
            parsing = f"strconv.ParseUint: parsing {golang.quote(text)}: {error}"
            raise status.bad_request(f"cannot convert to []int32: {parsing}") from None
    return found


def _log_errors(options: Object, by_stream: bool) -> list[FieldError]:
    errors = []
    if options.get("tailLines", 0) < 0:
        errors.append(field.invalid("tailLines", options["tailLines"], "must be greater than or equal to 0"))
    if options.get("limitBytes", 1) < 1:
        errors.append(field.invalid("limitBytes", options["limitBytes"], "must be greater than 0"))
    if "sinceSeconds" in options and "sinceTime" in options:
        errors.append(field.forbidden("[]", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
    elif options.get("sinceSeconds", 1) < 1:
        errors.append(field.invalid("sinceSeconds", options["sinceSeconds"], "must be greater than 0"))
    if by_stream:
        if options["stream"] not in _STREAMS:
            errors.append(field.not_supported("stream", options["stream"], _STREAMS))
        if options["stream"] != _ALL_STREAMS and "tailLines" in options:
            errors.append(field.forbidden("[]", "`tailLines` and specific `stream` are mutually exclusive for now"))
    elif "stream" in options:
        errors.append(field.forbidden("stream", "may not be specified"))
    return errors


def log_query(options: Object) -> bytes:
    """The query with the PodLogOptions, as the kubelet reads it."""
    keys = ("follow", "limitBytes", "previous", "sinceSeconds", "sinceTime", "stream", "tailLines", "timestamps")
    pairs = [(key, "true" if options[key] is True else str(options[key])) for key in keys if key in options]
    return urlencode(pairs).encode()


def stream_options(ctx: RequestContext, kind: str) -> Object:
    """The PodExecOptions or PodAttachOptions of a request."""
    options: Object = {key: True for key in ("stdin", "stdout", "stderr", "tty") if flag(ctx, key)}
    if ctx.first("container"):
        options["container"] = ctx.first("container")
    if kind == "PodExecOptions" and ctx.query.get("command"):
        options["command"] = list(ctx.query["command"])
    return options


def stream_query(options: Object) -> bytes:
    """The query for the kubelet: its names of the streams, sorted."""
    names = {"stdin": "input", "stdout": "output", "stderr": "error", "tty": "tty"}
    pairs = [(names[key], "1") for key in names if options.get(key)]
    pairs += [("command", part) for part in options.get("command") or ()]
    return urlencode(sorted(pairs, key=lambda pair: pair[0])).encode()


async def admit(ctx: RequestContext, scope: RequestScope, kind: str, options: Object) -> None:
    """Runs admission (CONNECT).  Raises the error of a plugin that refuses."""
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
