"""``kapi explain`` (upstream: kubectl ``cmd/explain``): what a kind and its fields mean, as the server documents them."""

from __future__ import annotations

from kapi.client.discovery import APIResource
from kapi.client.errors import NoMatch
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import Flag
from kapi.kubectl.messages import CommandError
from kapi.kubectl.openapi import read_document
from kapi.kubectl.schema_text import NoField, SchemaText
from kapi.machinery.gvk import GroupVersion

FLAGS = (
    Flag("recursive", "bool"),
    Flag("api-version"),
    Flag("output", short="o", default="plaintext"),
)


async def run(factory: Factory, program: str) -> int:
    flags = factory.flags
    if not flags.arguments:
        raise CommandError(
            f'You must specify the type of resource to explain. Use "{program} api-resources" for a complete list of '
            "supported resources.\n"
        )
    if len(flags.arguments) > 1:
        raise CommandError("We accept only this format: explain RESOURCE\n")
    text = flags.arguments[0].removesuffix(".")
    found, fields = await _resource(factory, text)
    group, version = found.group, found.version
    if flags.get_string("api-version"):
        group, version = GroupVersion.parse(flags.get_string("api-version"))
    if flags.get_string("output") == "plaintext-openapiv2":
        raise CommandError("--output=plaintext-openapiv2 is not supported: the server documents itself in OpenAPI v3")
    named = f"{group}/{version}, Resource={found.name}"
    document = await read_document(factory, group, version)
    if document is None:
        raise CommandError(f'couldn\'t find resource for "{named}"')
    writer = SchemaText(document, recursive=flags.get_bool("recursive"))
    if flags.get_string("output") != "plaintext":
        raise CommandError(f"unrecognized format: {flags.get_string('output')}")
    kind = writer.kind_of(group, version, found.name)
    if kind is None:
        raise CommandError(f"GVR ({named}) not found in OpenAPI schema")
    head = f"GROUP:      {kind['group']}\n" if kind.get("group") else ""
    factory.out.write(f"{head}KIND:       {kind['kind']}\nVERSION:    {kind['version']}\n\n")
    schema = writer.schema_of(kind)
    if schema is None:
        shown = " ".join(f"{key}:{kind[key]}" for key in sorted(kind))
        raise CommandError(f"GVK map[{shown}] not found in OpenAPI schema")
    try:
        factory.out.write(writer.explain(schema, fields) + "\n")
    except NoField as error:
        raise CommandError(str(error)) from None
    return 0


async def _resource(factory: Factory, text: str) -> tuple[APIResource, list[str]]:
    """The resource and the path of fields; ``deployments.apps.spec`` has a group, which only a plural may be followed by."""
    name, *fields = text.split(".")
    try:
        candidates = await factory.mapper.resources_for(name) if name else []
    except NoMatch as error:
        raise CommandError(str(error), plain=True) from None
    if not all((name, *fields)):
        raise CommandError("invalid jsonpath syntax, first node must be field node")
    if not factory.flags.get_string("api-version"):
        for one in candidates:
            full = f"{one.name}.{one.group}" if one.group else one.name
            if text.startswith(full):
                return one, text[len(full) :].split(".")[1:]
    return candidates[0], fields
