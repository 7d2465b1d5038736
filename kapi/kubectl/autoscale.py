"""``kapi autoscale`` (upstream: kubectl ``cmd/autoscale``): a HorizontalPodAutoscaler for an object with a scale subresource."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

from kapi.client.discovery import APIResource
from kapi.client.errors import StatusError
from kapi.kubectl.command import Help
from kapi.kubectl.creating import add_last_applied, metadata, post
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import FILENAME, PRINT, Flag, shared
from kapi.kubectl.info import Info
from kapi.kubectl.messages import CommandError
from kapi.kubectl.print_flags import printer_for
from kapi.kubectl.updates import given_objects
from kapi.kubectl.writing import dry_run_strategy, dry_run_suffix, recorded
from kapi.machinery.golang import float_text
from kapi.machinery.quantity import QuantityError, canonical
from kapi.machinery.tree import Object

MAX_PERCENTAGE = (1 << 31) - 1
_UNITS = {"cpu": "m", "memory": "Mi"}  # the unit of a number without one
_REFUSED = "failed to create autoscaling/v2 HPA and the configuration is incompatible with autoscaling/v1: {}"
FLAGS = (
    *FILENAME,
    *PRINT,
    *shared("dry-run save-config field-manager record"),
    Flag("max", "int32", default=-1, required=True, help="The most pods."),
    Flag("min", "int32", default=-1, help="The fewest pods; negative for the server's default."),
    Flag("cpu", help="The CPU that the pods are to use: a percentage of their requests (70%), or each of them (500m)."),
    Flag("memory", help="The memory that the pods are to use: a percentage of their requests (70%), or each of them (200Mi)."),
    Flag(
        "cpu-percent", "int32", default=-1, help="The CPU that the pods are to use, in percent of their requests.",
        deprecated="Use --cpu with percentage or resource quantity format "
                   "(e.g., '70%' for utilization or '500m' for milliCPU).",
    ),
    Flag("name", help="The name of the autoscaler; by default, that of the object."),
)  # fmt: skip
HELP = Help(
    "(-f FILENAME | TYPE NAME | TYPE/NAME) [--min=PODS] --max=PODS [--cpu=CPU] [--memory=MEMORY]",
    "Makes an autoscaler, which sets how many pods a deployment, replica set, stateful set or replication controller has.",
    ("Have 2 to 10 pods", "autoscale deployment web --min=2 --max=10"),
    ("Use 80% of the requested CPU", "autoscale deployment web --max=5 --cpu=80%"),
)


async def run(factory: Factory, program: str) -> int:
    flags = factory.flags
    dry_run = dry_run_strategy(flags.get_string("dry-run"))
    metrics = _checked(factory)
    done = "created" if dry_run == "client" else "autoscaled"

    async def handle(obj: Object) -> None:
        """Creates and prints an autoscaler; the flags of the output are only looked at then, as by kubectl."""
        if dry_run != "client":
            obj = await post(factory, obj, "horizontalpodautoscalers")
        factory.out.write(printer_for(flags, f"{done}{dry_run_suffix(dry_run)}", typed=True).print(obj))

    result = await given_objects(factory, program)
    found = False
    async for info in result.visit():
        with result.caught():
            _check_scale(info.mapping)
            made = recorded(factory, program, _autoscaler(factory, info, metrics))
            await _create(factory, made, handle, saved=dry_run != "client")
            found = True
    result.finish()
    if not found:
        raise CommandError("no objects passed to autoscale")
    return 0


def _checked(factory: Factory) -> list[Object]:
    """The metrics of the autoscaler.  Raises CommandError for flags that do not go together."""
    flags = factory.flags
    most, least, percentage = (flags.get_int(name) for name in ("max", "min", "cpu-percent"))
    if most < 1:
        raise CommandError(f"--max=MAXPODS is required and must be at least 1, max: {most}")
    if most < least:
        raise CommandError(f"--max=MAXPODS must be larger or equal to --min=MINPODS, max: {most}, min: {least}")
    if percentage > 0 and flags.get_string("cpu"):
        raise CommandError("--cpu-percent and --cpu are mutually exclusive")
    targets = {"cpu": f"{percentage}%"} if percentage > 0 else {}
    targets |= {name: flags.get_string(name) for name in _UNITS if flags.get_string(name)}
    return [
        {"type": "Resource", "resource": {"name": name, "target": _target(name, text.strip())}}
        for name, text in targets.items()
    ]


def _target(resource: str, text: str) -> Object:
    """Raises CommandError."""
    if not text:
        raise CommandError("empty input")
    if text.endswith("%"):
        number = text[:-1]
        if not re.fullmatch(r"\+?\d+", number) or int(number) > MAX_PERCENTAGE:
            raise CommandError(f"invalid percentage value: {number}")
        return {"type": "Utilization", "averageUtilization": int(number)}
    try:
        if re.fullmatch(r"[+-]?\d*\.?\d+([eE][+-]?\d+)?", text):
            text = f"{float_text(float(text))}{_UNITS[resource]}"
        return {"type": "AverageValue", "averageValue": canonical(text)}
    except QuantityError:
        raise CommandError(f"invalid resource {resource} value: {text}") from None


def _check_scale(mapping: APIResource) -> None:
    """Raises CommandError for an object without a scale subresource."""
    if not any(one.name == "scale" for one in mapping.subresources):
        version = mapping.group_version if mapping.group else f"/{mapping.version}"
        raise CommandError(
            f"cannot autoscale a {mapping.kind}: could not find scale subresource for {version}, "
            f"Resource={mapping.name} in discovery information"
        )


def _autoscaler(factory: Factory, info: Info, metrics: list[Object]) -> Object:
    flags, mapping = factory.flags, info.mapping
    spec: Object = {"scaleTargetRef": {"kind": mapping.kind, "name": info.name, "apiVersion": mapping.group_version}}
    spec |= {"minReplicas": flags.get_int("min")} if flags.get_int("min") > 0 else {}
    spec |= {"maxReplicas": flags.get_int("max")} | ({"metrics": metrics} if metrics else {})
    return {
        "kind": "HorizontalPodAutoscaler",
        "apiVersion": "autoscaling/v2",
        "metadata": metadata(factory, flags.get_string("name") or info.name),
        "spec": spec,
        "status": {"desiredReplicas": 0, "currentMetrics": None},
    }


async def _create(factory: Factory, obj: Object, handle: Callable[[Object], Awaitable[None]], *, saved: bool) -> None:
    """Handles the autoscaler in autoscaling/v2, or in v1, which has fewer metrics.  Raises CommandError and StatusError."""
    flags = factory.flags
    if saved and flags.get_bool("save-config"):
        add_last_applied(obj)
    try:
        await handle(obj)
        return
    except (CommandError, StatusError):
        if not flags.get_string("cpu"):
            raise CommandError(_REFUSED.format("empty input")) from None
        if flags.get_string("memory") or not flags.get_string("cpu").endswith("%"):
            raise CommandError(_REFUSED.format("%!w(<nil>)")) from None  # Go's text for no error
    spec = {field: value for field, value in obj["spec"].items() if field != "metrics"}
    if flags.get_int("cpu-percent") >= 0:
        spec["targetCPUUtilizationPercentage"] = flags.get_int("cpu-percent")
    status = {"currentReplicas": 0, "desiredReplicas": 0}
    older = {**obj, "apiVersion": "autoscaling/v1", "spec": spec, "status": status}
    await handle(older)
