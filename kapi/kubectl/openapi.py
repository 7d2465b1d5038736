"""The OpenAPI v3 document of a group version (upstream: client-go ``openapi``)."""

from __future__ import annotations

from kapi.kubectl.factory import Factory
from kapi.machinery.tree import Object


async def read_document(factory: Factory, group: str, version: str) -> Object | None:
    """The document, None when the server has none.  Raises StatusError and ClientError."""
    client = factory.client()
    paths = (await client.get().abs_path("/openapi/v3").do()).get("paths") or {}
    place = paths.get(f"apis/{group}/{version}" if group else f"api/{version}")
    if place is None:
        return None
    found: Object = await client.get().abs_path(place["serverRelativeURL"]).do()
    return found
