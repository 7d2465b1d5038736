"""From arguments and flags to the objects that they name (upstream: cli-runtime ``resource/builder.go``).

Each method adds one part of the command line; ``do`` checks that the parts go together and returns a Result.
"""

from __future__ import annotations

import contextlib
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from kapi.client.config import Config, ConfigError
from kapi.client.config_error import NoConnection
from kapi.client.discovery import APIResource
from kapi.client.errors import ClientError, ConnectionFailed, NoMatch
from kapi.client.rest import RESTClient
from kapi.client.session import Session, base_path
from kapi.kubectl.factory import Factory
from kapi.kubectl.info import Info, Transform
from kapi.kubectl.messages import (
    SCHEME,
    STDIN_TWICE,
    CommandError,
    ListErrors,
    OtherNamespace,
    aggregate,
    raise_errors,
    standard_message,
)
from kapi.kubectl.object_meta import check_names, check_type
from kapi.kubectl.raw import read_bytes
from kapi.kubectl.visitor import (
    Chain,
    Checked,
    Failed,
    Flattened,
    Items,
    ListItems,
    Matching,
    Named,
    Result,
    Selector,
    Visitor,
    decode,
    decoding,
    expand_paths,
    is_url,
    read_documents,
    typed_document,
)
from kapi.machinery.golang import quote
from kapi.machinery.gvk import GroupVersion
from kapi.machinery.status import StatusError
from kapi.machinery.tree import Object, dig
from kapi.process.reactor import Reactor

if TYPE_CHECKING:
    from kapi.kubectl.schema_validation import Validator

_SEPARATE = (
    "there is no need to specify a resource type as a separate argument when passing arguments in resource/name form "
    "(e.g. '{0} get resource/<resource_name>' instead of '{0} get resource resource/<resource_name>'"
)
_SINGLE_TYPE = "you may only specify a single resource type"


class Builder:
    """``program`` is the program's name in messages."""

    def __init__(self, factory: Factory, program: str = "kapi") -> None:
        self._factory, self._program = factory, program
        self._namespace, self._enforce, self._all = "", False, False
        self._labels = self._fields = self._subresource = ""
        self._chunk = 0
        self._files: list[str] = []
        self._streams: dict[str, bytes] = {}
        self._recursive = False
        self._types: list[str] = []
        self._names: list[str] = []
        self._tuples: list[tuple[str, str]] = []
        self._everything = self._implied = self._latest = self._flatten = self._single_type = False
        self._validator: Validator | None = None
        self._local = False
        self._scheme = ""
        self._errors: list[BaseException] = []
        self._file_errors: list[BaseException] = []
        self._check: Callable[[Info], Awaitable[None]] | None = None
        self._transform: Transform | None = None

    def namespace(self, namespace: str, *, enforce: bool = False, everywhere: bool = False) -> Builder:
        """``enforce``: objects of files may not have a different namespace."""
        self._namespace, self._enforce, self._all = "" if everywhere else namespace, enforce, everywhere
        return self

    def filenames(self, files: Sequence[str], recursive: bool) -> Builder:
        self._files, self._recursive = list(files), recursive
        self._file_errors = self._factory.file_errors
        return self

    def stream(self, data: bytes, name: str) -> Builder:
        """Objects are read from ``data``; messages call it ``name``."""
        self._streams[name] = data
        return self

    def labels(self, selector: str) -> Builder:
        self._labels = selector.strip()
        return self

    def fields(self, selector: str) -> Builder:
        self._fields = selector.strip()
        return self

    def subresource(self, name: str) -> Builder:
        self._subresource = name
        return self

    def chunks_of(self, size: int) -> Builder:
        self._chunk = size
        return self

    def select_all(self, everything: bool) -> Builder:
        self._everything = everything
        return self

    def latest(self) -> Builder:
        """Named objects are read from the server."""
        self._latest = True
        return self

    def local(self) -> Builder:
        """Reads objects only from files, without the server."""
        self._local = True
        return self

    def known(self, scheme: str = SCHEME) -> Builder:
        """Objects of a kind outside of Kubernetes' own API are errors, which name Go's ``scheme``."""
        self._scheme = scheme
        return self

    def checked(self, check: Callable[[Info], Awaitable[None]]) -> Builder:
        """Objects of files for which ``check`` raises CommandError or StatusError are errors."""
        self._check = check
        return self

    def flatten(self) -> Builder:
        self._flatten = True
        return self

    def transform_requests(self, transform: Transform | None) -> Builder:
        self._transform = transform
        return self

    def resource_type_or_name(self, arguments: Sequence[str], *, allow_empty_selector: bool = True) -> Builder:
        """``pods``, ``pods,svc``, ``pod name name``, ``pod/name svc/name``.  Raises CommandError."""
        given = list(arguments)
        if any("/" in argument for argument in given):
            for argument in given:
                kind, slash, name = argument.partition("/")
                if not slash:
                    raise CommandError(_SEPARATE.format(self._program))
                if "/" in name:
                    raise CommandError("arguments in resource/name form may not have more than one slash")
                if not kind or not name or len(kind.split(",")) != 1:
                    raise CommandError("arguments in resource/name form must have a single resource and name")
                self._tuples.append((kind, name))
            return self
        if given:
            self._types = given[0].split(",")
            try:
                with contextlib.suppress(NoConnection):  # is told when a request is made
                    self._factory.check_config()
            except ConfigError as error:
                self._errors += [error for _ in self._types]
            self._names = given[1:]
            if len(given) == 1 and allow_empty_selector and not self._labels:
                self._everything = self._implied = True
        return self

    def resource_names(self, kind: str, names: Sequence[str]) -> Builder:
        """Names of objects of the kind, or ``TYPE/NAME``.  Raises CommandError."""
        for name in names:
            if "/" in name:
                self.resource_type_or_name([name])
            else:
                self._tuples.append((kind, name))
        return self

    def validated(self, fields: str) -> Builder:
        """Documents of files that are not valid are errors.  ``fields``: the query parameter ``fieldValidation``."""
        if fields != "Ignore":
            from kapi.kubectl.schema_validation import Validator

            self._validator = Validator(self._factory, fields)
        return self

    def single_resource_type(self) -> Builder:
        self._single_type = True
        return self

    async def do(self) -> Result:
        """The objects.  Raises CommandError, ClientError, ConfigError and Aggregate for errors before the first object."""
        raise_errors(self._file_errors)
        aggregate(self._errors)
        if self._local and (self._tuples or self._types):
            raise CommandError(
                "you must specify resources by --filename when --local is set.\nExample resource specifications include:\n"
                "   '-f rsrc.yaml'\n   '--filename=rsrc.json'"
            )
        if self._files or self._streams:
            return await self._by_paths()
        if self._labels or self._fields or self._everything:
            return await self._by_selector()
        if self._tuples:
            return await self._by_resource()
        if self._names:
            return await self._by_name()
        if self._types:
            await self._mappings(categories=False)  # so that an unknown type is reported first
            raise CommandError("resource(s) were provided, but no name was specified")
        raise CommandError(
            "You must provide one or more resources by argument or filename.\nExample resource specifications include:\n"
            "   '-f rsrc.yaml'\n   '--filename=rsrc.json'\n   '<resource> <name>'\n   '<resource>'"
        )

    async def _mapping(self, text: str) -> APIResource:
        return await self._factory.mapper.resource_for(text)

    async def _mappings(self, *, categories: bool) -> list[APIResource]:
        """The resources of the given types, with categories expanded."""
        found: dict[APIResource, None] = {}
        if self._single_type and len(self._types) > 1:
            raise CommandError(_SINGLE_TYPE)
        for text in self._types:
            members = await self._factory.mapper.category(text) if categories and "." not in text else []
            for mapping in members or [await self._mapping(text)]:
                found[mapping] = None
        if self._single_type and len(found) > 1:
            raise CommandError(_SINGLE_TYPE)
        return list(found)

    def _check_namespace(self, mappings: Iterable[APIResource]) -> None:
        if not self._namespace and any(mapping.namespaced for mapping in mappings):
            if self._all:
                raise CommandError("a resource cannot be retrieved by name across all namespaces")
            raise CommandError("namespace may not be empty when retrieving a resource by name")

    def _named(self, mapping: APIResource, name: str) -> Named:
        info = Info(
            self._factory.client(mapping.group_version), mapping, self._namespace, name, subresource=self._subresource
        )
        return Named(info, self._transform, self._latest)

    async def _by_selector(self) -> Result:
        if self._everything and (self._labels or self._fields) and not self._implied:
            raise CommandError("setting 'all' parameter but found a non empty selector. ")
        if self._names:
            raise CommandError("name cannot be provided when a selector is specified")
        if self._tuples:
            raise CommandError("selectors and the all flag cannot be used when passing resource/name arguments")
        if not self._types:
            raise CommandError("at least one resource must be specified to use a selector")
        if self._subresource:
            raise CommandError("subresource cannot be used when bulk resources are specified")
        visitors: list[Visitor] = []
        for mapping in await self._mappings(categories=True):
            client = self._factory.client(mapping.group_version)
            visitors.append(
                Selector(
                    client, mapping, self._namespace, self._labels, self._fields, self._chunk, self._transform
                )  # fmt: skip
            )
        if self._enforce and self._all and self._flatten:
            return self._result([Checked(Flattened(Chain(visitors)), self._check_own_namespace)])
        return self._result(visitors)

    async def _by_resource(self) -> Result:
        named = [(await self._mapping(kind), name) for kind, name in self._tuples]
        if self._single_type and len({mapping for mapping, _ in named}) > 1:
            raise CommandError(_SINGLE_TYPE)
        self._check_namespace(mapping for mapping, _ in named)
        visitors = [self._named(mapping, name) for mapping, name in named]
        return self._result(visitors, single=len(self._tuples) == 1, targets=True)

    async def _by_name(self) -> Result:
        if not self._types:
            raise CommandError("you must provide a resource and a resource name together")
        await self._mappings(categories=False)
        mappings = [await self._mapping(text) for text in dict.fromkeys(self._types)]  # one of each way to name it
        self._check_namespace(mappings)
        visitors = [self._named(mapping, name) for mapping in mappings for name in self._names]
        return self._result(visitors, single=len(visitors) == 1, targets=True, by_name=True)

    async def _by_paths(self) -> Result:
        sources: list[str] = []
        kustomized = bool(self._files and self._factory.kustomization)
        for path in () if kustomized else self._files:
            sources += [path] if path == "-" or is_url(path) else expand_paths(path, self._recursive)
        if self._types or self._names:
            raise CommandError(
                "when paths, URLs, or stdin is provided as input, you may not specify resource arguments as well"
            )
        if self._tuples:
            raise CommandError("resource/name arguments cannot be provided when a path is specified")
        visitors: list[Visitor] = []
        if kustomized:
            try:
                sources = [self._factory.built()]
            except CommandError as error:
                visitors.append(Failed(error))
        if sources.count("-") > 1:
            raise CommandError(STDIN_TWICE)
        matches = self._label_predicate()
        for source in [*self._streams, *sources]:
            try:
                name = self._factory.source_name(source)
                for tree, text in read_documents(await self._read(source), name):
                    if self._validator is not None and (problem := await self._validator.problem(tree)):
                        raise _unvalidated(name, problem)
                    try:
                        with decoding(name):
                            read = typed_document(tree, self._scheme) if self._scheme else decode(tree, text)
                        visitors += await self._document(*read, name, matches)
                    except (CommandError, ListErrors) as error:
                        visitors.append(Failed(error))
            except CommandError as error:
                visitors.append(Failed(error))
        return self._result(
            visitors, single=len(sources) == 1 and (self._latest or self._local), targets=True, files=len(sources) or 1
        )

    async def _document(
        self, obj: Object, items: Items | None, source: str, matches: Callable[[dict[str, str]], bool]
    ) -> list[Visitor]:
        """The visitor of an object or list of a file whose labels match, none for others.

        Raises CommandError, and ListErrors for items that are no objects.
        """
        if items is None or not self._flatten:
            return [await self._visitor(obj, source, False, matches)] if self._is_chosen(obj, matches) else []
        if not self._local:
            await self._mapping_of(obj, source)
        chosen = (item for item in items() if isinstance(item, Exception) or self._is_chosen(item, matches))
        return [
            ListItems(
                [
                    Failed(item) if isinstance(item, Exception) else await self._visitor(item, source, True, matches)
                    for item in chosen
                ]
            )
        ]

    def _is_chosen(self, obj: Object, matches: Callable[[dict[str, str]], bool]) -> bool:
        """Whether the labels in a file match; those of objects that are read are looked at later."""
        return self._latest or matches(dig(obj, "metadata", "labels") or {})

    async def _visitor(
        self, obj: Object, source: str, listed: bool, matches: Callable[[dict[str, str]], bool]
    ) -> Visitor:
        visitor: Visitor
        try:
            info = await self._from_object(obj, source, listed)
            visitor = Named(info, self._transform, self._latest)
            if self._latest:  # what the server does not have is told before a wrong namespace
                visitor = Checked(Matching(visitor, matches), self._check_own_namespace)
            else:
                await self._check_own_namespace(info)
        except CommandError as error:
            return Failed(error)
        return visitor if self._check is None else Checked(visitor, self._check)

    async def _check_own_namespace(self, info: Info) -> None:
        """Raises CommandError for an object in another namespace than the command line's, which is "" with all of them."""
        if self._enforce and info.mapping.namespaced and info.namespace and info.namespace != self._namespace:
            raise OtherNamespace(info.namespace, self._namespace)

    def _label_predicate(self) -> Callable[[dict[str, str]], bool]:
        """A predicate: whether labels match the selector.  Raises CommandError for a bad selector."""
        if not self._labels:
            return lambda labels: True
        from kapi.machinery.selectors import SelectorError, parse_labels

        try:
            return parse_labels(self._labels).matches
        except SelectorError as error:
            raise CommandError(f"the provided selector {quote(self._labels)} is not valid: {error}") from None

    async def _read(self, source: str) -> bytes:
        """Raises CommandError."""
        if source in self._streams:
            return self._streams[source]
        if is_url(source):
            return await download(source, self._factory.reactor)
        data = read_bytes(source, self._factory.stdin).removeprefix(BOM_UTF8)
        if data.isascii() or data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
            return data
        return data.decode(errors="replace").encode()  # as kubectl reads what is not UTF-8

    async def _from_object(self, obj: Object, source: str, listed: bool) -> Info:
        version, kind = str(obj.get("apiVersion") or ""), obj.get("kind")
        if listed and not self._scheme:
            check_type(obj)
            with decoding(source):
                check_names(obj)
        if self._local:
            return _local_info(obj, version, str(kind), source)
        mapping = await self._mapping_of(obj, "" if listed else source)
        metadata = obj.get("metadata", {})
        namespace = (metadata or {}).get("namespace") or ""
        if mapping.namespaced and not namespace:
            namespace = self._namespace
            if metadata is not None and namespace:
                obj["metadata"] = {**metadata, "namespace": namespace}
        return Info(
            RESTClient(self._factory.session, base_path(version)),
            mapping,
            namespace,
            (metadata or {}).get("name") or "",
            obj=obj,
            subresource=self._subresource,
            source=source,
        )

    async def _mapping_of(self, obj: Object, source: str) -> APIResource:
        """The resource of an object of a file; without ``source`` of an item of a list.  Raises CommandError."""
        version, kind = obj.get("apiVersion") or "", obj["kind"]
        try:
            return await self._factory.mapper.kind_for(version, kind)
        except (ClientError, StatusError) as error:
            if not source:
                raise CommandError(f"unable to recognize {self._factory.discovery_text(error)}") from None
            if not isinstance(error, NoMatch):
                why = self._factory.discovery_text(error)
                raise CommandError(f"unable to recognize {quote(source)}: {why}") from None
            metadata = obj.get("metadata") or {}
            raise CommandError(
                f'resource mapping not found for name: "{metadata.get("name", "")}" namespace: '
                f'"{metadata.get("namespace", "")}" from "{source}": no matches for kind "{kind}" in version "{version}"\n'
                "ensure CRDs are installed first"
            ) from None

    def _result(
        self,
        visitors: Sequence[Visitor],
        *,
        single: bool = False,
        targets: bool = False,
        files: int = 0,
        by_name: bool = False,
    ) -> Result:
        chain: Visitor = Chain(visitors)
        if self._scheme and not self._local:
            chain = Checked(chain, self._check_info)
        chain = Flattened(chain) if self._flatten else chain
        count = files or len(visitors)
        return Result(
            chain, single=single, targets_single_items=targets, of_files=files > 0, by_name=by_name, sources=count
        )

    async def _check_info(self, info: Info) -> None:
        """Raises CommandError for an object of the server of a kind outside of Kubernetes' own API."""
        if "." in str((info.object or {}).get("apiVersion") or ""):  # as each custom resource's
            from kapi.kubectl.local_patch import check_known

            check_known(info.object or {}, self._scheme)


def _local_info(obj: Object, version: str, kind: str, source: str) -> Info:
    """An Info of an object, with the kind from the object itself."""
    metadata = obj.get("metadata") or {}
    namespace = metadata.get("namespace") or ""
    mapping = APIResource(*GroupVersion.parse(version), kind.lower(), kind, namespaced=bool(namespace))
    return Info(None, mapping, namespace, metadata.get("name") or "", obj=obj, source=source)


def builder_of(factory: Factory, program: str) -> Builder:
    """A Builder with the namespace and the files of the flags, whose lists are taken apart."""
    flags = factory.flags
    builder = Builder(factory, program).flatten()
    everywhere = flags.has("all-namespaces") and flags.get_bool("all-namespaces")
    builder.namespace(factory.namespace, enforce=bool(flags.get_string("namespace")), everywhere=everywhere)
    return builder.filenames(flags.get_list("filename"), flags.has("recursive") and flags.get_bool("recursive"))


def selecting_builder(factory: Factory, program: str) -> Builder:
    """A Builder that also has the selectors of the flags: labels and fields."""
    flags = factory.flags
    return builder_of(factory, program).labels(flags.get_string("selector")).fields(flags.get_string("field-selector"))


def _unvalidated(source: str, what: str) -> CommandError:
    return CommandError(
        f'error validating "{source}": error validating data: {what}; if you choose to ignore these errors, '
        "turn validation off with --validate=false"
    )


TIMEOUT_SECONDS = 30.0


async def download(url: str, reactor: Reactor) -> bytes:
    """The content of the URL.  Raises CommandError."""
    parsed = urlsplit(url)
    if not parsed.netloc:
        raise CommandError("Unable to connect to the server: http: no Host in request URL", plain=True)
    session = Session.for_config(
        Config(host=f"{parsed.scheme}://{parsed.netloc}", qps=0, timeout=TIMEOUT_SECONDS), reactor
    )
    try:
        path = (parsed.path or "/") + (f"?{parsed.query}" if parsed.query else "")
        return await RESTClient(session, accept="*/*").get().abs_path(path).raw()
    except StatusError as error:
        raise CommandError(
            f'unable to read URL "{url}", server reported {error.code}, status code={error.code}'
        ) from None
    except ConnectionFailed as error:
        raise CommandError(standard_message(error, url) or str(error), plain=True) from None
    finally:
        await session.close()
