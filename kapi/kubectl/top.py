"""``kapi top node`` and ``top pod``: the usage from the metrics API (upstream: kubectl ``cmd/top``, ``metricsutil``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kapi.kubectl.command import Command, Help
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import Flag, shared
from kapi.kubectl.messages import CommandError
from kapi.kubectl.printers.tabwriter import TabWriter
from kapi.machinery import quantities
from kapi.machinery.selectors import SelectorError, parse_fields, parse_labels
from kapi.machinery.tree import Object, dig

_GROUP, _VERSIONS = "metrics.k8s.io", ("v1", "v1beta1")
_UNKNOWN = "<unknown>"
Amounts = Mapping[str, str]


async def _node(factory: Factory, program: str) -> int:
    name = _name(factory, f"{program} top node", "node [NAME | -l label]", "--selector")
    await _nodes(factory, await _version(factory), name)
    return 0


async def _pod(factory: Factory, program: str) -> int:
    name = _name(
        factory, f"{program} top pod", "pod [NAME | -l label]", "selector", factory.flags.get_string("field-selector")
    )
    await _pods(factory, await _version(factory), name)
    return 0


def _name(factory: Factory, usage: str, text: str, selector: str, fields: str = "") -> str:
    """The name among the arguments, or "".  ``text`` and ``selector`` are for messages.  Raises CommandError."""
    flags, names = factory.flags, factory.flags.arguments
    if len(names) > 1:
        raise CommandError(text, usage=usage)
    if flags.has("all-namespaces"):  # pods
        factory.check_namespace()
    factory.check_config()
    if flags.get_string("sort-by") not in ("", "cpu", "memory"):
        raise CommandError("--sort-by accepts only cpu or memory")
    if names and (flags.get_string("selector") or fields):
        raise CommandError(f"only one of NAME or {selector} can be provided")
    try:
        parse_labels(flags.get_string("selector"))
        parse_fields(fields)
    except SelectorError as error:
        raise CommandError(str(error)) from None
    return names[0] if names else ""


async def _version(factory: Factory) -> str:
    """The newest version of the metrics API that is served.  Raises CommandError."""
    groups = (await factory.client().get().abs_path("/apis").do()).get("groups") or []
    served = [one["version"] for group in groups if group["name"] == _GROUP for one in group["versions"]]
    found = next((version for version in _VERSIONS if version in served), None)
    if found is None:
        raise CommandError("Metrics API not available")
    return f"{_GROUP}/{found}"


async def _read(
    factory: Factory, version: str, resource: str, namespace: str, name: str, fields: str = ""
) -> list[Object]:
    request = factory.client(version).get().namespace(namespace).resource(resource)
    if name:
        return [await request.name(name).do()]
    request.params({"labelSelector": factory.flags.get_string("selector"), "fieldSelector": fields})
    return (await request.do()).get("items") or []


def _milli(amounts: Amounts, name: str) -> int:
    return quantities.milli(amounts.get(name, "0"))


def _order(sort_by: str, amounts: Amounts, names: Sequence[str]) -> tuple[object, ...]:
    if sort_by == "cpu":
        return (-_milli(amounts, "cpu"),)
    return (-quantities.ceiling(amounts.get("memory", "0")),) if sort_by else tuple(names)


def _resources(factory: Factory) -> tuple[str, ...]:
    return ("cpu", "memory", "swap") if factory.flags.get_bool("show-swap") else ("cpu", "memory")


def _usage(name: str, amounts: Amounts) -> str:
    return (
        f"{_milli(amounts, 'cpu')}m"
        if name == "cpu"
        else f"{quantities.ceiling(amounts.get(name, '0')) // (1 << 20)}Mi"
    )


class _Table:
    """A table in which every cell ends with a tab, as in kubectl."""

    def __init__(self, factory: Factory) -> None:
        self._factory, self._writer = factory, TabWriter()

    def row(self, *cells: str) -> None:
        self._writer.row((*cells, ""))

    def headers(self, *cells: str) -> None:
        if not self._factory.flags.get_bool("no-headers"):
            self.row(*cells)

    def end(self) -> None:
        self._factory.out.write(self._writer.flush())


async def _nodes(factory: Factory, version: str, name: str) -> None:
    flags, resources = factory.flags, _resources(factory)
    metrics = await _read(factory, version, "nodes", "", name)
    if not metrics:
        raise CommandError("metrics not available yet")
    path = "capacity" if flags.get_bool("show-capacity") else "allocatable"
    available: dict[str, dict[str, str]] = {}
    without_swap = set()
    for node in await _read(factory, "v1", "nodes", "", name):
        swap = dig(node, "status", "nodeInfo", "swap", "capacity")
        available[node["metadata"]["name"]] = dict(dig(node, "status", path) or {})
        if swap is None:
            without_swap.add(node["metadata"]["name"])
        else:
            available[node["metadata"]["name"]]["swap"] = str(quantities.Amount(quantities.value_of(swap), "binary"))
    metrics.sort(key=lambda one: _order(flags.get_string("sort-by"), one.get("usage") or {}, [one["metadata"]["name"]]))
    table = _Table(factory)
    swap_titles = ("SWAP(bytes)", "SWAP(%)") if "swap" in resources else ()
    table.headers("NAME", "CPU(cores)", "CPU(%)", "MEMORY(bytes)", "MEMORY(%)", *swap_titles)
    for one in metrics:
        node_name, usage = one["metadata"]["name"], one.get("usage") or {}
        whole = available.pop(node_name, {})
        cells = [node_name]
        for resource in resources:
            if resource == "swap" and node_name in without_swap:
                cells += [_UNKNOWN, _UNKNOWN]
                continue
            cells.append(_usage(resource, usage))
            if resource in whole:
                total = _milli(whole, resource)
                cells.append(f"{int(_milli(usage, resource) / total * 100) if total else 0}%")
        table.row(*cells)
    for node_name in sorted(available):
        table.row(node_name, *[_UNKNOWN] * (2 * len(resources)))
    table.end()


async def _pods(factory: Factory, version: str, name: str) -> None:
    flags, resources = factory.flags, _resources(factory)
    everywhere = flags.get_bool("all-namespaces")
    namespace = "" if everywhere else factory.namespace
    metrics = await _read(factory, version, "pods", namespace, name)
    fields = flags.get_string("field-selector")
    if metrics and fields:
        kept = {_place(pod) for pod in await _read(factory, "v1", "pods", namespace, "", fields)}
        metrics = [one for one in metrics if _place(one) in kept]
    if not metrics:
        if await _read(factory, "v1", "pods", factory.namespace, name, fields):
            raise CommandError("metrics not available yet")
        where = "" if everywhere else f" in {factory.namespace} namespace."
        factory.err.write(f"No resources found{where}\n")
        return
    sort_by, with_containers = flags.get_string("sort-by"), flags.get_bool("containers")
    sums = {_place(one): _sum(one, resources) for one in metrics}
    metrics.sort(key=lambda one: _order(sort_by, sums[_place(one)], _place(one)[not everywhere :]))
    table = _Table(factory)
    first = ([*["NAMESPACE"] * everywhere, *["POD"] * with_containers], len(resources) + 1)
    table.headers(*first[0], "NAME", "CPU(cores)", "MEMORY(bytes)", *["SWAP(bytes)"] * ("swap" in resources))
    for one in metrics:
        start = [one["metadata"]["namespace"]] if everywhere else []
        pod_name = one["metadata"]["name"]
        if not with_containers:
            table.row(*start, pod_name, *(_usage(resource, sums[_place(one)]) for resource in resources))
            continue
        for container in sorted(
            one.get("containers") or (), key=lambda one: _order(sort_by, one.get("usage") or {}, [one["name"]])
        ):
            usage = container.get("usage") or {}
            table.row(*start, pod_name, container["name"], *(_usage(resource, usage) for resource in resources))
    if flags.get_bool("sum"):
        total: dict[str, str] = {}
        for sums_of_one in sums.values():
            _add(total, sums_of_one)
        width = first[1] if flags.get_bool("no-headers") else first[1] + len(first[0])
        table.row(*[""] * (width - 2), "________", "________")
        table.row(*[""] * (width - 3), "", *(_usage(resource, total) for resource in resources))
    table.end()


def _place(obj: Object) -> tuple[str, str]:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def _sum(pod: Object, resources: Sequence[str]) -> dict[str, str]:
    total = dict.fromkeys(resources, "0")
    for container in pod.get("containers") or ():
        _add(total, {name: amount for name, amount in (container.get("usage") or {}).items() if name in resources})
    return total


def _add(total: dict[str, str], more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = quantities.add(total.get(name, "0"), amount)


_SHARED = (
    *shared("selector sort-by no-headers"),
    Flag("use-protocol-buffers", "bool", default=True, help="Has no effect: metrics are read as JSON."),
    Flag("show-swap", "bool", help="Show swap memory too."),
)
HELP = Help("SUBCOMMAND", "Shows what nodes and pods use, from the metrics API.")
SUBCOMMANDS = (
    Command(
        "node", "Show what nodes use", _node,
        Help("[NAME | -l LABELS]", "", ("Show all", "top node"), ("Show one", "top node worker-1")),
        *_SHARED,
        Flag("show-capacity", "bool", help="Percentages are of the capacity, not of what is allocatable."),
        aliases=("nodes", "no"),
    ),
    Command(
        "pod", "Show what pods use", _pod,
        Help("[NAME | -l LABELS]", "", ("Show the pods of all namespaces by memory", "top pod -A --sort-by=memory")),
        *_SHARED,
        *shared("field-selector all-namespaces"),
        Flag("containers", "bool", help="The containers that are meant, by name; * stands for any characters."),
        Flag("sum", "bool", help="Print the sum below."),
        aliases=("pods", "po"),
    ),
)  # fmt: skip
