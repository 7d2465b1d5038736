"""Reads the posted object of a review and makes the response; nothing is stored.

Upstream: apiserver ``endpoints/handlers/create.go``, which handles these kinds like all others.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping

import msgspec

from kapi.admission.interface import CREATE, AdmissionChain, Attributes
from kapi.authentication.interface import TokenAuthenticator
from kapi.authentication.service_account.issuer import Issuer
from kapi.authorization.interface import Authorizer, RuleResolver
from kapi.codecs.negotiation import MediaType, output_media_type
from kapi.endpoints.body import decode_object, raw_body
from kapi.endpoints.encoding import respond_object
from kapi.endpoints.options import WriteOptions, write_options
from kapi.endpoints.scope import RequestScope
from kapi.machinery import status
from kapi.machinery.gvk import GroupResource
from kapi.machinery.tree import Object
from kapi.registry import metadata as meta
from kapi.registry.environment import Environment
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.resources.definition import Lister
from kapi.schema.builtin import type_of
from kapi.schema.managedfields import FieldManager


class ReviewServices(msgspec.Struct):
    """The dependencies of the review endpoints.  Made by the composition root."""

    environment: Environment
    authorizer: Authorizer
    rules: RuleResolver | None = None
    tokens: TokenAuthenticator | None = None  # None: a TokenReview never authenticates
    issuer: Issuer[str] | Issuer[Awaitable[str]] | None = None  # None: no ServiceAccount tokens are made
    anonymous: bool = False  # whether a request without credentials is let in wherever it goes to
    api_audiences: tuple[str, ...] = ()
    admission: AdmissionChain = msgspec.field(default_factory=AdmissionChain)
    max_token_seconds: int = 0  # --service-account-max-token-expiration; 0 = no limit
    extend_tokens: bool = True  # --service-account-extend-token-expiration
    listers: Mapping[GroupResource, Lister] = msgspec.field(default_factory=dict)


class PostedReview(msgspec.Struct):
    """One posted review."""

    ctx: RequestContext
    scope: RequestScope
    obj: Object
    options: WriteOptions
    media: MediaType
    attributes: Attributes
    admission: AdmissionChain

    async def validate(self) -> None:
        """Runs validating admission: upstream does so between the static checks and the evaluation."""
        self.attributes.obj = self.obj
        await self.admission.validate(self.attributes)

    def answer(self, obj: Object) -> Response:
        """201 with the object."""
        return respond_object(self.ctx, self.scope, 201, obj, None, self.media)


async def read_review(ctx: RequestContext, scope: RequestScope, services: ReviewServices) -> PostedReview:
    """Decodes the body, sets managed fields, and runs mutating admission.  Raises StatusError."""
    info, user = ctx.info, ctx.user
    assert info is not None and user is not None
    resource, sub = scope.resource, scope.subresource
    if sub is None and resource.namespaced and not info.namespace:
        raise status.no_such_resource()
    media = output_media_type(ctx, "create", tables=sub is not None)
    data = raw_body(ctx)
    options = write_options(ctx, "CreateOptions")
    type_ = type_of(scope.kind)
    obj = decode_object(ctx, data, scope.kind, type_, options.field_validation)
    resource.strategy.default(obj)
    default_review(obj, scope.kind.kind)
    if ctx.audit is not None:
        ctx.audit.request_object(obj)
    metadata = obj.setdefault("metadata", {})
    if sub is None:
        meta.wipe_system_fields(metadata)
    namespace = info.namespace if resource.namespaced else ""
    meta.ensure_namespace(obj, namespace, scope.gvr)
    ctx.warn(meta.dedup_owner_references(obj, after_admission=False))
    manager = FieldManager(type_, scope.kind, (), sub.name if sub else "")
    manager.update(None, obj, options.field_manager, services.environment.now())
    attributes = Attributes(
        CREATE,
        scope.kind,
        scope.gvr,
        namespace,
        info.name or metadata.get("name", ""),
        obj,
        None,
        user,
        subresource=sub.name if sub else "",
        options=options.tree,
        dry_run=options.dry_run,
        warnings=ctx.warnings,
        annotations=ctx.annotations,
    )
    admission = scope.store.admission if scope.store is not None else services.admission
    await admission.admit(attributes)
    obj = attributes.obj if attributes.obj is not None else obj
    return PostedReview(ctx, scope, obj, options, media, attributes, admission)


def default_review(obj: Object, kind: str) -> None:
    """Sets the only default among these kinds: a token is valid for an hour."""
    if kind == "TokenRequest":
        spec = obj.setdefault("spec", {})
        if spec.get("expirationSeconds") is None:
            spec["expirationSeconds"] = 3600
