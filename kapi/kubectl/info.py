"""An object, or a list, on which a command works (upstream: cli-runtime ``resource/visitor.go`` Info, ``helper.go``)."""

from __future__ import annotations

from collections.abc import Callable

from kapi.client.discovery import APIResource
from kapi.client.errors import StatusError
from kapi.client.rest import PatchType, Request, RESTClient
from kapi.kubectl.messages import CommandError
from kapi.machinery.status import NotFound
from kapi.machinery.tree import Object, Tree

#: changes a read request before it is sent, for instance to ask for a table
Transform = Callable[[Request], Request]


class Info:
    """``object`` was read from a file, or from the server by ``get``.

    ``client`` is None with ``--local``, which uses no server.
    """

    def __init__(
        self,
        client: RESTClient | None,
        mapping: APIResource,
        namespace: str = "",
        name: str = "",
        *,
        obj: Object | None = None,
        subresource: str = "",
        source: str = "",
    ) -> None:
        self._client, self.mapping, self.name = client, mapping, name
        self.namespace = namespace if mapping.namespaced else ""
        self.object, self.subresource, self.source = obj, subresource, source

    @property
    def client(self) -> RESTClient:
        assert self._client is not None, "this object is of no server"
        return self._client

    def item(self, obj: Object) -> Info:
        """One of the objects of this list."""
        metadata: Object = obj.get("metadata") or {}
        return Info(self._client, self.mapping, metadata.get("namespace", ""), metadata.get("name", ""), obj=obj)

    @property
    def text(self) -> str:
        """``pod/name`` or ``deployment.apps/name``."""
        return f"{kind_text(self.mapping)}/{self.name}"

    def request(self, made: Request, name: str | None = None) -> Request:
        """For the object, or with a ``name`` for another one; "" is the whole resource.  Raises CommandError without a name."""
        made = made.namespace(self.namespace).resource(self.mapping.name)
        if name is None and not self.name:
            raise CommandError("resource name may not be empty")
        if name != "" and self.mapping.namespaced and not self.namespace:
            raise CommandError("an empty namespace may not be set when a resource name is provided")
        if name != "":
            made = made.name(self.name if name is None else name)
        return made.subresource(self.subresource)

    async def get(self, transform: Transform | None = None) -> None:
        """Reads the object.  Raises StatusError; when the namespace does not exist, the error of the namespace."""
        request = self.request(self.client.get())
        try:
            self.object = await (transform(request) if transform is not None else request).do()
        except NotFound as error:
            if self.namespace and self.namespace != "default":
                await self._check_namespace(error)
            raise

    async def _check_namespace(self, error: NotFound) -> None:
        """Raises NotFound when the namespace does not exist."""
        try:
            await self.client.get().abs_path(f"/api/v1/namespaces/{self.namespace}").do()
        except NotFound as missing:
            raise missing from error
        except StatusError:  # the user may not read namespaces
            return

    async def create(self, **options: object) -> None:
        """Without the resourceVersion that an object from a server has, as upstream (``Helper.Create``)."""
        metadata = (self.object or {}).get("metadata") or {}
        if isinstance(metadata.get("resourceVersion"), str):
            del metadata["resourceVersion"]
        self.object = await self.request(self.client.post(), "").params(options).body(self.object).do()

    async def patch(self, kind: PatchType, body: object, **options: object) -> None:
        self.object = await self.request(self.client.patch(kind)).params(options).body(body).do()

    async def delete(self, options: Object) -> Tree:
        body = {"kind": "DeleteOptions", "apiVersion": "v1", **options}
        return await self.request(self.client.delete()).body(body).do()

    def refresh(self) -> None:
        """Takes name and namespace from the object."""
        metadata = (self.object or {}).get("metadata") or {}
        self.name = metadata.get("name") or self.name


def kind_text(mapping: APIResource) -> str:
    """``pod`` or ``deployment.apps``."""
    kind = mapping.kind.lower()
    return f"{kind}.{mapping.group}" if mapping.group else kind


def is_list(obj: Object) -> bool:
    return "items" in obj and isinstance(obj["items"], list) and str(obj.get("kind", "")).endswith("List")


def items_of(obj: Object) -> list[Object]:
    """The items of a list, each with the kind and version that the list implies."""
    kind, version = str(obj.get("kind", "")).removesuffix("List"), obj.get("apiVersion", "")
    found = []
    for item in obj["items"] or ():
        if not any(item and isinstance(item.get(name), str) and item[name] for name in ("kind", "apiVersion")):
            item = {**(item or {}), "apiVersion": version, "kind": kind}
        found.append(item)
    return found
