"""``kapi api-resources`` and ``kapi api-versions`` (upstream: kubectl ``cmd/apiresources``)."""

from __future__ import annotations

from collections.abc import Callable

from kapi.client.discovery import STALE, APIResource, Discovered
from kapi.client.errors import ConnectionFailed, DeadlineExceeded
from kapi.client.mapper import preferred
from kapi.kubectl.command import Command, Help
from kapi.kubectl.commands import ENTRIES
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import Flag, Flags, shared
from kapi.kubectl.messages import CommandError
from kapi.kubectl.print_flags import no_printer
from kapi.machinery.gvk import GroupVersion
from kapi.machinery.tree import Object

FLAGS = (
    *shared("output no-headers sort-by show-managed-fields"),
    Flag("api-group", help="Only the resources of this group."),
    Flag("namespaced", "bool", default=True, help="Only resources with (true) or without (false) a namespace."),
    Flag("verbs", "list", help="Only resources with these verbs."),
    Flag("cached", "bool", help="Use the discovery that is kept on disk, if there is one."),
    Flag("categories", "list", help="Only resources of these categories."),
)
_OUTPUTS = ("json", "kyaml", "name", "wide", "yaml")
HELP = Help(
    "",
    "Lists the resources that the server has, with their short names and kinds.",
    ("List them all", "api-resources"),
    ("List those with a namespace, by name", "api-resources --namespaced=true -o name"),
    ("List those that can be listed and watched", "api-resources --verbs=list,watch"),
)


async def discovered(factory: Factory, cached: bool = False) -> Discovered:
    """Groups and resources of the server; with ``cached``, from the cache on disk if it is fresh."""
    source = factory.discovery()
    if not cached:
        source.invalidate()
    found: Discovered = await source.discover()
    return found


def _check_no_arguments(factory: Factory, usage: str) -> None:
    if factory.flags.arguments:
        raise CommandError(f"unexpected arguments: [{' '.join(factory.flags.arguments)}]", usage=usage)


async def run(factory: Factory, program: str) -> int:
    flags = factory.flags
    _check_no_arguments(factory, f"{program} api-resources")
    factory.check_config()
    output = flags.get_string("output")
    if output.lower() in ("json", "kyaml", "yaml"):
        output = output.lower()
    if output not in ("", *_OUTPUTS):
        raise no_printer(output, _OUTPUTS)
    if flags.get_string("sort-by") not in ("", "name", "kind"):
        raise CommandError("--sort-by accepts only name or kind")
    found = await discovered(factory, flags.get_bool("cached"))
    chosen = sorted((one for one in preferred(found) if _wanted(one, flags)), key=_order(flags.get_string("sort-by")))
    if output in ("json", "kyaml", "yaml"):
        _print_list(factory, chosen, output)
    elif output == "name":
        factory.out.write("".join(f"{one.name}.{one.group}\n" if one.group else f"{one.name}\n" for one in chosen))
    else:
        _print_table(factory, chosen, output == "wide")
    if missing := {name: why for name, why in found.failed.items() if why != STALE}:  # kubectl leaves stale ones out
        failed = ", ".join(f"{name}: {why}" for name, why in missing.items())
        raise CommandError(f"unable to retrieve the complete list of server APIs: {failed}")
    return 0


def _wanted(one: APIResource, flags: Flags) -> bool:
    if not one.verbs:
        return False
    if flags.given("api-group") and one.group != flags.get_string("api-group"):
        return False
    if flags.given("namespaced") and one.namespaced != flags.get_bool("namespaced"):
        return False
    return set(flags.get_list("verbs")) <= set(one.verbs) and set(flags.get_list("categories")) <= set(one.categories)


def _order(field: str) -> Callable[[APIResource], str | tuple[str, str]]:
    if field == "name":
        return lambda one: one.name
    if field == "kind":
        return lambda one: one.kind
    return lambda one: (one.group, one.name)


def _print_table(factory: Factory, chosen: list[APIResource], wide: bool) -> None:
    from kapi.kubectl.printers.tabwriter import TabWriter

    writer = TabWriter()
    if not factory.flags.get_bool("no-headers"):
        writer.row(
            ["NAME", "SHORTNAMES", "APIVERSION", "NAMESPACED", "KIND", *(["VERBS", "CATEGORIES"] if wide else [])]
        )
    for one in chosen:
        cells = [one.name, ",".join(one.short_names), one.group_version, str(one.namespaced).lower(), one.kind]
        writer.row([*cells, ",".join(one.verbs), ",".join(one.categories)] if wide else cells)
    factory.out.write(writer.flush())


def _print_list(factory: Factory, chosen: list[APIResource], output: str) -> None:
    resources = []
    for one in chosen:
        item: Object = {"name": one.name, "singularName": one.singular, "namespaced": one.namespaced}
        item |= {"group": one.group} if one.group else {}
        item |= {"version": one.version, "kind": one.kind, "verbs": list(one.verbs)}
        item |= {"shortNames": list(one.short_names)} if one.short_names else {}
        item |= {"categories": list(one.categories)} if one.categories else {}
        resources.append(item)
    tree = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "", "resources": resources or None}
    if output == "json":
        import json

        factory.out.write(json.dumps(tree, indent=4) + "\n")
    elif output == "kyaml":
        from kapi.kubectl.printers.kyaml import dump_kyaml

        factory.out.write(dump_kyaml(tree, list))
    else:
        from kapi.codecs.yaml_writing import dump_yaml

        factory.out.write(dump_yaml(tree).decode())


async def _run_versions(factory: Factory, program: str) -> int:
    _check_no_arguments(factory, f"{program} api-versions")
    try:
        found = await discovered(factory)
    except (ConnectionFailed, DeadlineExceeded) as error:
        raise CommandError(
            f"couldn't get available api versions from server: {factory.discovery_text(error)}"
        ) from None
    names = [str(GroupVersion(group.name, version)) for group in found.groups for version in group.versions]
    factory.out.write("".join(f"{name}\n" for name in sorted(names) if found.failed.get(name) != STALE))
    return 0


_VERSIONS_HELP = Help(
    "",
    "Lists the group versions that the server has, as manifests name them in apiVersion.",
    ("List them", "api-versions"),
)
NEIGHBOURS = {
    "api-versions": Command("api-versions", ENTRIES["api-versions"].summary, _run_versions, help=_VERSIONS_HELP)
}
