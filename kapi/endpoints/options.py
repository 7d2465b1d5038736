"""Reading and validating the query options of the verbs (upstream: apimachinery ``meta/v1`` options and validation)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kapi.codecs.negotiation import APPLIED_AS
from kapi.machinery import status
from kapi.machinery.field import FieldError, Path, forbidden, invalid, not_supported, required, too_long
from kapi.machinery.golang import NumberError, parse_int
from kapi.machinery.gvk import GroupKind
from kapi.machinery.memo import memoized
from kapi.machinery.selectors import FieldSelector, LabelSelector, SelectorError, parse_fields, parse_labels
from kapi.machinery.tree import Object
from kapi.request.context import RequestContext
from kapi.resources.shared.features import enabled

_META = "meta.k8s.io"


def _invalid(kind: str, errors: list[FieldError]) -> None:
    if errors:
        raise status.invalid(GroupKind(_META, kind), "", errors)


def truth(value: str) -> bool:
    """A boolean query option: anything but "", "0" and "false" is true."""
    return value.lower() not in ("false", "0")


def boolean(ctx: RequestContext, name: str) -> bool | None:
    values = ctx.query.get(name)
    return None if not values else truth(values[0])


def integer(ctx: RequestContext, name: str) -> int | None:
    """An int64 option.  Raises BadRequest with the text of Go's error."""
    values = ctx.query.get(name)
    if not values:
        return None
    text = values[0]
    try:
        return parse_int(text)
    except NumberError as error:
        raise status.bad_request(f'strconv.ParseInt: parsing "{text}": {error}') from None


class ListOptions(msgspec.Struct):
    """The options of list, watch and deletecollection; the selectors are not parsed yet."""

    label_selector: str
    field_selector: str
    allow_watch_bookmarks: bool
    resource_version: str
    resource_version_match: str | None
    timeout_seconds: int | None
    limit: int
    continue_: str
    send_initial_events: bool | None
    shard_selector: str


def list_options(ctx: RequestContext) -> ListOptions:
    """The options of a request.  Raises BadRequest when one cannot be parsed, and Invalid for forbidden combinations."""
    match = ctx.query.get("resourceVersionMatch")
    options = ListOptions(
        label_selector=ctx.first("labelSelector"),
        field_selector=ctx.first("fieldSelector"),
        allow_watch_bookmarks=bool(boolean(ctx, "allowWatchBookmarks")),
        resource_version=ctx.first("resourceVersion"),
        resource_version_match=match[0] if match and match[0] else None,
        timeout_seconds=integer(ctx, "timeoutSeconds"),
        limit=integer(ctx, "limit") or 0,
        continue_=ctx.first("continue"),
        send_initial_events=boolean(ctx, "sendInitialEvents"),
        shard_selector=ctx.first("shardSelector"),
    )
    # of the old paths with /watch/ the query says nothing of watching, so upstream checks it as that of a list
    errors = _check_watch(options) if boolean(ctx, "watch") else _check_list(options)
    if errors:
        check_selectors(options)  # invalid selectors are reported first
    _invalid("ListOptions", errors)
    return options


def check_selectors(options: ListOptions) -> tuple[LabelSelector, FieldSelector]:
    """The parsed selectors, whether their fields are supported or not.  Raises BadRequest."""
    try:
        return parse_labels(options.label_selector), parse_fields(options.field_selector)
    except SelectorError as error:
        raise status.bad_request(str(error)) from None


def _check_list(options: ListOptions) -> list[FieldError]:
    errors: list[FieldError] = []
    path, match = Path("resourceVersionMatch"), options.resource_version_match
    if match is not None:
        if not options.resource_version:
            errors.append(forbidden(path, "resourceVersionMatch is forbidden unless resourceVersion is provided"))
        if options.continue_:
            errors.append(forbidden(path, "resourceVersionMatch is forbidden when continue is provided"))
        if match not in ("Exact", "NotOlderThan"):
            errors.append(not_supported(path, match, ("Exact", "NotOlderThan", "")))
        elif match == "Exact" and options.resource_version == "0":
            errors.append(forbidden(path, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'))
    if options.send_initial_events is not None:
        errors.append(forbidden(Path("sendInitialEvents"), "sendInitialEvents is forbidden for list"))
    return errors


def _check_watch(options: ListOptions) -> list[FieldError]:
    errors: list[FieldError] = []
    path, match = Path("resourceVersionMatch"), options.resource_version_match
    if begins_with_objects(options):
        if options.continue_:
            errors.append(forbidden(path, "resourceVersionMatch is forbidden when continue is provided"))
        return errors
    if options.send_initial_events is not None:
        if match != "NotOlderThan":
            errors.append(forbidden(path, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"))
    elif match is not None:
        errors.append(
            forbidden(path, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
        )
    if match is not None and match != "NotOlderThan":
        errors.append(not_supported(path, match, ("NotOlderThan",)))
    if match is not None and options.continue_:
        errors.append(forbidden(path, "resourceVersionMatch is forbidden when continue is provided"))
    return errors


def begins_with_objects(options: ListOptions) -> bool:
    """Whether a watch has ``sendInitialEvents`` by default; upstream sets defaults before validation."""
    given = options.send_initial_events is not None or options.resource_version_match is not None
    return not given and options.resource_version in ("", "0")


def check_initial_events(features: Mapping[str, bool]) -> None:
    """Raises Invalid when the feature gate WatchList is off; called for a watch with sendInitialEvents."""
    if not enabled(features, "WatchList"):
        text = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
        raise status.invalid(GroupKind(_META, "ListOptions"), "", [forbidden(Path("sendInitialEvents"), text)])


def _dry_run(ctx: RequestContext, errors: list[FieldError]) -> list[str]:
    values = ctx.query.get("dryRun")
    if not values:
        return []
    if any(value != "All" for value in values):
        errors.append(dry_run_error(values))
    return values


def dry_run_error(values: list[str]) -> FieldError:
    return not_supported(Path("dryRun"), values, ["All"])


def check_field_manager(manager: str) -> list[FieldError]:
    """The errors of a field manager's name: it may have at most 128 bytes, and only printable characters."""
    path = Path("fieldManager")
    errors: list[FieldError] = []
    if len(manager.encode()) > 128:
        errors.append(too_long(path, 128))
    for position, char in enumerate(manager):
        if not char.isprintable():
            errors.append(invalid(path, manager, f"invalid character U+{ord(char):04X} (at position {position})"))
    return errors


_VALIDATIONS = ("", "Ignore", "Strict", "Warn")


class WriteOptions(msgspec.Struct):
    """The options of create, update and patch."""

    dry_run: bool
    field_manager: str
    field_validation: str  # Ignore, Warn or Strict
    force: bool | None
    tree: Object  # the options object as admission shows it


def write_options(ctx: RequestContext, kind: str, patch_type: str = "") -> WriteOptions:
    """The options of a request; ``kind`` is CreateOptions, UpdateOptions or PatchOptions.  Raises Invalid."""
    errors: list[FieldError] = []
    force: bool | None = None
    manager = ctx.first("fieldManager")
    validation = ctx.first("fieldValidation")
    if kind == "PatchOptions":
        force = boolean(ctx, "force")
        if patch_type in APPLIED_AS:
            if not manager:
                errors.append(required(Path("fieldManager"), "is required for apply patch"))
        elif force is not None:
            errors.append(forbidden(Path("force"), "may not be specified for non-apply patch"))
    if manager:
        errors.extend(check_field_manager(manager))
    dry_run = _dry_run(ctx, errors)
    if validation not in _VALIDATIONS:
        errors.append(not_supported(Path("fieldValidation"), validation, _VALIDATIONS))
    _invalid(kind, errors)
    tree: Object = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
    if dry_run:
        tree["dryRun"] = dry_run
    if force is not None:
        tree["force"] = force
    if manager:
        tree["fieldManager"] = manager
    if validation:
        tree["fieldValidation"] = validation
    return WriteOptions(bool(dry_run), manager or default_manager(ctx), validation or "Warn", force, tree)


def default_manager(ctx: RequestContext) -> str:
    """The default name of the field manager: the user agent up to the first slash."""
    return _manager_of((ctx.header("user-agent") or "").partition("/")[0])


@memoized(1000)
def _manager_of(agent: str) -> str:
    kept = "".join(char for char in agent if char.isprintable())
    return kept.encode()[:128].decode("utf-8", "ignore") or "unknown"


def delete_options_from_query(ctx: RequestContext) -> Object:
    """The DeleteOptions of a request without a body."""
    options: Object = {}
    grace = integer(ctx, "gracePeriodSeconds")
    if grace is not None:
        options["gracePeriodSeconds"] = grace
    for name in ("orphanDependents", "ignoreStoreReadErrorWithClusterBreakingPotential"):
        if (value := boolean(ctx, name)) is not None:
            options[name] = value
    propagation = ctx.query.get("propagationPolicy")
    if propagation:
        options["propagationPolicy"] = propagation[0]
    dry_run = ctx.query.get("dryRun")
    if dry_run:
        options["dryRun"] = dry_run
    preconditions = {name: given for name in ("uid", "resourceVersion") if (given := ctx.first(name))}
    if preconditions:
        options["preconditions"] = preconditions
    return options


def check_delete_options(options: Object) -> None:
    """Raises Invalid."""
    errors: list[FieldError] = []
    propagation = options.get("propagationPolicy")
    if options.get("orphanDependents") is not None and propagation is not None:
        errors.append(
            invalid(
                Path("propagationPolicy"), propagation, "orphanDependents and deletionPropagation cannot be both set"
            )
        )
    if propagation is not None and propagation not in ("Foreground", "Background", "Orphan"):
        errors.append(
            not_supported(Path("propagationPolicy"), propagation, ("Foreground", "Background", "Orphan", "nil"))
        )
    dry_run = options.get("dryRun") or []
    if any(value != "All" for value in dry_run):
        errors.append(dry_run_error(dry_run))
    _invalid("DeleteOptions", errors)
