"""``serviceaccounts/token``: makes a token (KEP-1205; upstream: ``core/serviceaccount/storage/token.go``)."""

from __future__ import annotations

from kapi.authentication.service_account.issuer import SigningError
from kapi.authentication.service_account.names import ISSUED_CREDENTIAL_ID
from kapi.endpoints.reviews.posted_review import ReviewServices, read_review
from kapi.endpoints.scope import RequestScope
from kapi.machinery import status
from kapi.machinery.each import elements
from kapi.machinery.field import Path, invalid
from kapi.machinery.gvk import GroupKind, GroupResource, GroupVersion
from kapi.machinery.time import stamp
from kapi.machinery.tree import Object
from kapi.registry.resource_store import check_name
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.resources.shared.features import enabled
from kapi.resources.shared.rules import TOKEN_SECONDS, Errors

_KIND = GroupKind("authentication.k8s.io", "TokenRequest")
#: kubelets request this lifetime for tokens of pods; such a token is extended to a year, and its use after the hour is reported
_WARN_ONLY_SECONDS, _EXTENDED_SECONDS = 3607, 365 * 24 * 3600


async def create_token(ctx: RequestContext, scope: RequestScope, services: ReviewServices) -> Response:
    """201 with the TokenRequest and its token.  Raises StatusError."""
    if services.issuer is None:
        raise status.no_such_resource()
    posted = await read_review(ctx, scope, services)
    info = ctx.info
    assert info is not None
    obj, name, namespace = posted.obj, info.name, info.namespace
    metadata, spec = obj["metadata"], obj.setdefault("spec", {})
    given = metadata.get("name", "")
    if given and given != name:
        error = invalid("metadata.name", given, "must match the service account name if specified")
        raise status.invalid(_KIND, name, [error])
    waiting = scope.store.cache.wait_fresh()
    if waiting is not None:
        await waiting
    entry = scope.store.cache.get(namespace, name)
    if entry is None:
        raise status.not_found(scope.store.group_resource, name)
    account: Object = entry.object
    uid = account["metadata"]["uid"]
    checks_uid = enabled(services.environment.features, "TokenRequestServiceAccountUIDValidation")
    if checks_uid and metadata.get("uid") and metadata["uid"] != uid:
        raise status.conflict(
            GroupResource(_KIND.group, _KIND.kind),
            name,
            f"the UID in the token request ({metadata['uid']}) does not match the UID of the service account ({uid})",
        )
    audiences = spec.get("audiences") or list(services.api_audiences)
    seconds = spec["expirationSeconds"]
    _check_seconds(seconds)
    now = services.environment.clock()
    managed = metadata.get("managedFields")
    obj["metadata"] = metadata = {
        **{key: value for key, value in metadata.items() if key != "managedFields"},
        "name": name,
        "namespace": namespace,
        "uid": uid,
        "creationTimestamp": stamp(now),
    }
    if managed:
        metadata["managedFields"] = managed
    obj.pop("status", None)
    await posted.validate()

    reference = spec.get("boundObjectRef")
    bound = _bound(reference, name, namespace, services) if reference is not None else {}
    longest = services.max_token_seconds or services.issuer.max_seconds
    if longest and seconds > longest:
        ctx.warn(f"requested expiration of {seconds} seconds shortened to {longest} seconds")
        seconds = longest
    lifetime, warn_after = seconds, 0
    if "pod" in bound and seconds == _WARN_ONLY_SECONDS and _extends(services, audiences):
        lifetime, warn_after = min(_EXTENDED_SECONDS, services.issuer.max_seconds or _EXTENDED_SECONDS), seconds
    signed, token_id = services.issuer.issue(account, audiences, lifetime, warn_after=warn_after, **bound)
    try:
        token = signed if isinstance(signed, str) else await signed
    except SigningError as error:
        raise status.internal(f"failed to generate token: {error}") from None
    ctx.annotations[ISSUED_CREDENTIAL_ID] = f"JTI={token_id}"
    return posted.answer(
        {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": metadata,
            "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": reference},
            "status": {"token": token, "expirationTimestamp": stamp(now + seconds)},
        }
    )


def _extends(services: ReviewServices, audiences: list[str]) -> bool:
    """Whether tokens for these audiences are valid for longer than requested: only such for the API server."""
    known = set(services.api_audiences)
    return services.extend_tokens and all(audience in known for audience in elements(audiences))


def _check_seconds(seconds: int) -> None:
    errors: Errors = []
    TOKEN_SECONDS(seconds, Path("spec").child("expirationSeconds"), errors, None)
    if errors:
        raise status.invalid(_KIND, "", errors)


def _bound(reference: Object, account: str, namespace: str, services: ReviewServices) -> dict[str, Object]:
    """The object that a token is bound to, as a keyword argument for the issuer; for a pod also its node."""
    kind = reference.get("kind", "")
    try:
        group, version = GroupVersion.parse(reference.get("apiVersion", ""))
    except ValueError:
        group, version = "", ""
    plural = {"Pod": "pods", "Node": "nodes", "Secret": "secrets"}.get(kind)
    if group or plural is None:
        raise status.bad_request(f"cannot bind token to object of type {group}/{version}, Kind={kind}")
    name = reference.get("name", "")
    if not name:
        raise status.bad_request("Name parameter required.")
    check_name(name)
    obj = _get(services, plural, "" if kind == "Node" else namespace, name)
    bound = {kind.lower(): obj}
    if kind == "Pod":
        spec = obj.get("spec") or {}
        if spec.get("serviceAccountName", "") != account:
            raise status.bad_request(
                f'cannot bind token for serviceaccount "{account}" to pod running with different serviceaccount name.'
            )
        node = spec.get("nodeName")
        if node:
            known = services.listers[GroupResource("", "nodes")].get("", node)
            bound["node"] = known if known is not None else {"metadata": {"name": node}}
    uid = reference.get("uid", "")
    if uid and obj["metadata"]["uid"] != uid:
        raise status.conflict(
            GroupResource("", kind),
            name,
            f"the UID in the bound object reference ({uid}) does not match the UID in record. "
            "The object might have been deleted and then recreated",
        )
    return bound


def _get(services: ReviewServices, plural: str, namespace: str, name: str) -> Object:
    resource = GroupResource("", plural)
    obj = services.listers[resource].get(namespace, name)
    if obj is None:
        raise status.not_found(resource, name)
    return obj
