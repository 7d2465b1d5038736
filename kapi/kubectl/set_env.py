"""``kapi set env`` (upstream: kubectl ``cmd/set/set_env.go``, ``cmd/set/env``)."""

from __future__ import annotations

import base64
import contextlib
import math
import re
from collections.abc import Iterable

from kapi.client.errors import StatusError
from kapi.kubectl.command import Command, Help
from kapi.kubectl.create_data import variable_problems
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import Flag, shared
from kapi.kubectl.info import Info
from kapi.kubectl.marks import resources_and_pairs
from kapi.kubectl.messages import STDIN_TWICE, CommandError
from kapi.kubectl.print_flags import printer_for
from kapi.kubectl.updates import (
    CONTAINERS,
    OBJECTS,
    changed_pods,
    check,
    containers_of,
    has_pods,
    pod_spec,
    read_objects,
    selected,
    update_pods,
)
from kapi.kubectl.writing import dry_run_strategy
from kapi.machinery import names, quantities
from kapi.machinery.golang import quote
from kapi.machinery.tree import Object

_SET = re.compile(r".+=.*", re.DOTALL)
_FIELDS = ("name", "namespace", "uid")  # fields of metadata to which pods can refer


class _Variables:
    """The variables of the arguments: ``new`` ones in order, and the names of removed ones (``gone``)."""

    def __init__(self, pairs: Iterable[str], factory: Factory) -> None:
        """Raises CommandError."""
        self.new: list[Object] = []
        self.gone: set[str] = set()
        given: set[str] = set()
        for pair in pairs:
            name, equals, value = pair.partition("=")
            if pair == "-":
                self.new += _read(factory.stdin.read())
            elif equals:
                if problems := variable_problems(name):
                    raise CommandError(f"{quote(name)} is not a valid key name: {';'.join(problems)}")
                given.add(name)
                self.new.append({"name": name, "value": value})
            elif pair.endswith("-"):
                self.gone.add(pair[:-1])
            else:
                raise CommandError(f"unknown environment variable: {pair}")
        if given & self.gone:
            raise CommandError("can not both modify and remove the same environment variable in the same command")

    def applied(self, env: list[Object], *, overwrite: bool) -> list[Object]:
        """The variables of a container with these changes.  Raises CommandError for a value that must not be replaced."""
        env = [*env]
        if not overwrite:
            for one in self.new:
                place = _place(env, one["name"])
                if place < len(env) and env[place].get("value", "") != one.get("value", ""):
                    raise CommandError(
                        f"'{one['name']}' already has a value ({env[place].get('value', '')}), and --overwrite is false"
                    )
        for one in self.new:
            place = _place(env, one["name"])
            env[place : place + 1] = [one]
        return [one for one in env if one["name"] not in self.gone]


def _place(env: list[Object], name: str) -> int:
    """The index of a variable; that after the last one if it is not there."""
    return next((place for place, one in enumerate(env) if one["name"] == name), len(env))


def _read(text: str) -> list[Object]:
    """The variables of lines of KEY=VALUE; text after # is a comment."""
    lines = [line.removesuffix("\r").partition("#")[0] for line in text.split("\n")]
    return [dict(zip(("name", "value"), line.split("=", 1), strict=True)) for line in lines if "=" in line]


def _is_variable(argument: str) -> bool:
    """``KEY=VALUE``, ``KEY-``, or ``-`` for standard input."""
    return argument.endswith("-") or _SET.fullmatch(argument) is not None


async def _env(factory: Factory, program: str) -> int:
    flags = factory.flags
    if flags.get_bool("all") and flags.get_string("selector"):
        raise CommandError("cannot set --all and --selector at the same time")
    try:
        resources, pairs = resources_and_pairs(flags.arguments, "environment", _is_variable)
    except CommandError:
        text = " ".join(flags.arguments)
        raise CommandError(f"all resources must be specified before environment changes: {text}") from None
    dry_run_strategy(flags.get_string("dry-run"))
    printer_for(flags)
    if not flags.get_bool("local"):
        factory.check_config()
    _check(factory, resources)
    if flags.get_bool("local"):
        resources = []  # as kubectl, which then takes only files
    pairs = [*flags.get_list("env"), *pairs]
    if "-" in pairs and "-" in flags.get_list("filename"):
        raise CommandError(STDIN_TWICE)
    variables = _Variables(pairs, factory)
    if source := flags.get_string("from"):
        variables.new += await _from(factory, program, source, flags.get_list("keys"))
    prefix = flags.get_string("prefix")
    variables.new = [{**one, "name": prefix + one["name"]} for one in variables.new]

    done: list[str] = []  # containers of the last object

    def change(info: Info, spec: Object) -> list[str]:
        done.clear()
        pattern = flags.get_string("containers")
        found = selected(spec, pattern)
        if not found:
            text = f"{info.mapping.kind}/{info.name} does not have any containers matching {quote(pattern)}"
            factory.err.write(f"Warning: {text}\n")
        for one in found:
            env = variables.applied(one.get("env") or [], overwrite=flags.get_bool("overwrite"))
            if env or "env" in one:
                one["env"] = env
            done.append(one["name"])
        return []

    def listed(info: Info, spec: Object) -> list[str]:
        with contextlib.suppress(CommandError):  # kubectl lists the containers before the one that it refuses
            change(info, spec)
        return []

    if not flags.get_bool("list"):
        failed = "failed to patch env update to pod template:"
        return await update_pods(factory, program, resources, "env updated", failed, change)
    result = await read_objects(factory, program, resources, whole=flags.get_bool("all"))
    infos = await result.all()
    for info in infos:
        if has_pods(info):
            await _show(factory, info, changed_pods(info, listed)[0], done)
    return 0


def _check(factory: Factory, resources: list[str]) -> None:
    """Raises CommandError for flags that contradict each other."""
    flags = factory.flags
    if problems := check(factory, dry_run_strategy(flags.get_string("dry-run")), resources):
        raise problems[-1]
    if flags.get_bool("list") and flags.get_string("output"):
        raise CommandError("--list and --output may not be specified together")
    if flags.get_list("keys") and not flags.get_string("from"):
        raise CommandError("when specifying --keys, a configmap or secret must be provided with --from")


async def _from(factory: Factory, program: str, source: str, keys: list[str]) -> list[Object]:
    """Variables that refer to the keys of a config map or secret."""
    result = await read_objects(factory, program, [] if factory.flags.get_bool("local") else [source], whole=False)
    infos = await result.all()
    found: list[Object] = []
    for info in infos:
        field = {"Secret": "secretKeyRef", "ConfigMap": "configMapKeyRef"}.get(info.mapping.kind)
        if field is None:
            raise CommandError("unsupported resource specified in --from")
        for key in sorted((info.object or {}).get("data") or {}):
            if not keys or key in keys:
                name = re.sub(r"[^A-Za-z0-9_]", "_", key).upper()
                if name != key:
                    factory.err.write(f"Warning: key {key} transferred to {name}\n")
                found.append({"name": name, "valueFrom": {field: {"name": info.name, "key": key}}})
    return found


async def _show(factory: Factory, info: Info, obj: Object, names: list[str]) -> None:
    """Prints the variables of an object's containers of these names; ``--resolve`` reads the values of references."""
    flags = factory.flags
    for container in containers_of(pod_spec(obj, info)):
        if container["name"] not in names:
            continue
        values = _Values(factory, obj, container)
        problems: dict[str, list[str]] = {}
        factory.out.write(f"# {info.mapping.kind} {info.name}, container {container['name']}\n")
        for variable in container.get("env") or ():
            name, source, value = variable["name"], variable.get("valueFrom"), variable.get("value", "")
            if source is not None:
                try:
                    value = await values.of(source) if flags.get_bool("resolve") else None
                except (CommandError, StatusError) as error:
                    value = None
                    problems.setdefault(str(getattr(error, "message", error)), []).append(name)
            shown = f"# {name} from {_reference(source)}" if value is None else f"{name}={value}"
            factory.out.write(shown + "\n")
        lines = [f"error retrieving reference for {', '.join(sorted(who))}: {text}" for text, who in problems.items()]
        factory.err.write("".join(f"{line}\n" for line in sorted(lines)))


def _reference(source: Object) -> str:
    if (found := source.get("configMapKeyRef")) is not None:
        return f"configmap {found['name']}, key {found['key']}"
    if (found := source.get("secretKeyRef")) is not None:
        return f"secret {found['name']}, key {found['key']}"
    if (found := source.get("fieldRef")) is not None:
        return f"field path {found['fieldPath']}"
    if (found := source.get("resourceFieldRef")) is not None:
        name = f"{found['containerName']}/" if found.get("containerName") else ""
        return f"resource field {name}{found['resource']}"
    return "invalid valueFrom"


class _Values:
    """The values of a container's variables that are references.  Each object is read once."""

    def __init__(self, factory: Factory, obj: Object, container: Object) -> None:
        self._factory, self._obj, self._container = factory, obj, container
        self._read: dict[tuple[str, str], Object] = {}

    async def of(self, source: Object) -> str:
        """Raises CommandError and StatusError."""
        if (found := source.get("secretKeyRef")) is not None:
            value = await self._key("secrets", "secret", found)
            return base64.b64decode(value).decode("utf-8", "replace")
        if (found := source.get("configMapKeyRef")) is not None:
            return await self._key("configmaps", "config map", found)
        if (found := source.get("fieldRef")) is not None:
            return _field(self._obj["metadata"], found["fieldPath"])
        if (found := source.get("resourceFieldRef")) is not None:
            return _amount(self._container.get("resources") or {}, found)
        raise CommandError("invalid valueFrom")

    async def _key(self, resource: str, what: str, reference: Object) -> str:
        name, key = reference["name"], reference["key"]
        if (resource, name) not in self._read:
            request = self._factory.client("v1").get().namespace(self._factory.namespace).resource(resource)
            self._read[resource, name] = await request.name(name).do()
        data: dict[str, str] = self._read[resource, name].get("data") or {}
        if key not in data:
            raise CommandError(f"key {key} not found in {what} {name}")
        return data[key]


def _field(metadata: Object, path: str) -> str:
    """Raises CommandError."""
    of, subscript, key = path.removesuffix("']").partition("['")
    if of and subscript and path.endswith("']"):
        if of not in ("metadata.annotations", "metadata.labels"):
            raise CommandError(f"fieldPath {quote(path)} does not support subscript")
        field = of.removeprefix("metadata.")
        if problems := names.qualified_name(key.lower() if field == "annotations" else key):
            raise CommandError(f"invalid key subscript in {path}: {';'.join(problems)}")
        return str((metadata.get(field) or {}).get(key, ""))
    field = path.removeprefix("metadata.")
    if path == f"metadata.{field}" and field in ("annotations", "labels"):
        return "\n".join(f"{key}={quote(value)}" for key, value in sorted((metadata.get(field) or {}).items()))
    if path == f"metadata.{field}" and field in _FIELDS:
        return str(metadata.get(field, ""))
    raise CommandError(f"unsupported fieldPath: {path}")


def _amount(resources: Object, reference: Object) -> str:
    """How much of a resource a container has, in units of the divisor.  Raises CommandError."""
    of, _, name = reference["resource"].partition(".")
    if of not in ("limits", "requests") or not (
        name in ("cpu", "memory", "ephemeral-storage") or name.startswith("hugepages-")
    ):
        raise CommandError(f"Unsupported container resource : {reference['resource']}")
    measured = quantities.milli if name == "cpu" else quantities.ceiling
    divisor = reference.get("divisor") or "0"
    unit = measured(divisor) if quantities.sign(divisor) else measured("1")
    return str(math.ceil(measured((resources.get(of) or {}).get(name, "0")) / unit))


ENV = Command(
    "env", "Set environment variables of containers", _env,
    Help(
        "TYPE/NAME KEY=VALUE ... KEY- ...", "",
        ("Set one", "set env deployment/web COLOR=red"), ("Remove it", "set env deployment/web COLOR-"),
    ),
    *OBJECTS,
    CONTAINERS,
    Flag("env", "array", short="e", help="A variable, KEY=VALUE; may be repeated."),
    Flag("from", help="The config map or secret whose keys become variables."),
    Flag("keys", "list", help="Only these keys of --from."),
    Flag("prefix", help="Is put before the names of variables."),
    Flag("list", "bool", help="Show the variables."),
    Flag("resolve", "bool", help="With --list: show the values of keys and fields that variables refer to."),
    *shared("overwrite"),
)  # fmt: skip
