"""``kapi config`` (upstream: kubectl ``cmd/config``): shows kubeconfig files, and sets the current context."""

from __future__ import annotations

import copy
import os
import tempfile
from pathlib import Path

from kapi.client.clientcmd import Kubeconfig, default_files
from kapi.kubectl.command import Help
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import Flag
from kapi.kubectl.messages import Aggregate, CommandError
from kapi.kubectl.print_flags import no_printer
from kapi.machinery.tree import Object

FLAGS = (
    Flag("output", short="o"),
    Flag("no-headers", "bool"),
    Flag("raw", "bool"),
    Flag("minify", "bool"),
    Flag("flatten", "bool"),
    Flag("merge", "bool", default=True),
)

#: the order of fields, as in Go's structs
_ORDER = (
    "cluster", "user", "namespace", "server", "tls-server-name", "insecure-skip-tls-verify", "certificate-authority",
    "certificate-authority-data", "proxy-url", "disable-compression", "client-certificate", "client-certificate-data",
    "client-key", "client-key-data", "token", "tokenFile", "as", "as-uid", "as-groups", "as-user-extra", "username",
    "password", "auth-provider", "exec",
)  # fmt: skip
HELP = Help(
    "SUBCOMMAND",
    "Shows and changes kubeconfig files. The file that is changed is that of --kubeconfig, of $KUBECONFIG, or ~/.kube/config.",
    (
        ("Show the contexts", "config get-contexts"),
        ("Use another context from now on", "config use-context test"),
    ),
)


def _place(field: str) -> int:
    return _ORDER.index(field) if field in _ORDER else len(_ORDER)


async def run(factory: Factory, program: str) -> int:
    arguments = factory.flags.arguments
    name, rest = (arguments[0], arguments[1:]) if arguments else ("", [])
    match name:
        case "current-context":
            current = factory.kubeconfig().current_context
            if not current:
                raise CommandError("current-context is not set")
            factory.out.write(f"{current}\n")
        case "get-contexts":
            _get_contexts(factory, rest)
        case "get-clusters" | "get-users":
            _names(factory, {"get-clusters": "clusters", "get-users": "users"}[name])
        case "use-context" | "use":
            _use_context(factory, rest)
        case "view":
            _view(factory)
        case _:
            raise CommandError(
                f'unknown command "{name}": one of current-context, get-contexts, get-clusters, get-users, use-context, view'
            )
    return 0


def _get_contexts(factory: Factory, names: list[str]) -> None:
    from kapi.kubectl.printers.tabwriter import TabWriter

    files = factory.kubeconfig()
    contexts, output = files.entries["contexts"], factory.flags.get_string("output")
    if output not in ("", "name"):
        raise CommandError("--output wasn't specified or specified incorrectly. Only -o name is supported")
    missing = [name for name in names if name not in contexts]
    chosen = [name for name in names if name in contexts] if names else list(contexts)
    writer = TabWriter()
    if output != "name" and not factory.flags.get_bool("no-headers"):
        writer.row(["CURRENT", "NAME", "CLUSTER", "AUTHINFO", "NAMESPACE"])
    for name in sorted(chosen):
        context = contexts[name]
        mark = "*" if name == files.current_context else ""
        if output == "name":
            writer.row([name])
        else:
            writer.row([mark, name, *(str(context.get(key) or "") for key in ("cluster", "user", "namespace"))])
    factory.out.write(writer.flush())
    if missing:
        errors = [CommandError(f"context {name} not found") for name in missing]
        raise errors[0] if len(errors) == 1 else Aggregate(errors)


def _names(factory: Factory, plural: str) -> None:
    found = sorted(factory.kubeconfig().entries[plural])
    factory.out.write("NAME\n" + "".join(f"{name}\n" for name in found))


def _view(factory: Factory) -> None:
    flags = factory.flags
    files = factory.kubeconfig()
    tree = _tree(files, flags.get_string("context") or files.current_context if flags.get_bool("minify") else "")
    if not flags.get_bool("raw"):
        _redact(tree)
    output = flags.get_string("output") or "yaml"
    if output == "json":
        import json

        ordered = {key: tree[key] for key in ("kind", "apiVersion", "clusters", "users", "contexts", "current-context")}
        for plural, singular in (("clusters", "cluster"), ("users", "user"), ("contexts", "context")):
            for item in ordered[plural] or ():
                item[singular] = {key: item[singular][key] for key in sorted(item[singular], key=_place)}
        factory.out.write(json.dumps(ordered, indent=4, ensure_ascii=False) + "\n")
    elif output == "yaml":
        from kapi.codecs.yaml_writing import dump_yaml

        factory.out.write(dump_yaml(tree).decode())
    else:
        raise no_printer(output, ("json", "yaml"))


def _tree(files: Kubeconfig, only: str) -> Object:
    entries = files.entries
    names = {plural: sorted(entries[plural]) for plural in entries}
    if only:
        if only not in entries["contexts"]:
            raise CommandError(f'cannot locate context "{only}"')
        context = entries["contexts"][only]
        names = {"contexts": [only], "clusters": [str(context.get("cluster"))], "users": [str(context.get("user"))]}
    tree: Object = {"apiVersion": "v1", "kind": "Config", "current-context": only or files.current_context}
    for plural, singular in (("clusters", "cluster"), ("contexts", "context"), ("users", "user")):
        tree[plural] = [
            {"name": name, singular: copy.deepcopy(entries[plural][name])}
            for name in names[plural]
            if name in entries[plural]
        ] or None
    return tree


def _redact(tree: Object) -> None:
    for item in tree["clusters"] or ():
        if item["cluster"].get("certificate-authority-data"):
            item["cluster"]["certificate-authority-data"] = "DATA+OMITTED"
    for item in tree["users"] or ():
        for key in ("client-certificate-data", "client-key-data"):
            if item["user"].get(key):
                item["user"][key] = "DATA+OMITTED"
        for key in ("token", "password"):
            if item["user"].get(key):
                item["user"][key] = "REDACTED"


def _use_context(factory: Factory, arguments: list[str]) -> None:
    if len(arguments) != 1:
        raise CommandError(f"unexpected args: [{' '.join(arguments)}]")
    name = arguments[0]
    files = factory.kubeconfig()
    if name not in files.entries["contexts"]:
        raise CommandError(f'no context exists with the name: "{name}"')
    from kapi.codecs import yaml_reading
    from kapi.codecs.yaml_writing import dump_yaml

    path = Path(files.current_context_file or factory.flags.get_string("kubeconfig") or default_files()[-1])
    tree, _ = yaml_reading.loads(path.read_bytes())
    tree["current-context"] = name
    number, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    with os.fdopen(number, "wb") as file:
        file.write(dump_yaml(tree))
    os.chmod(temporary, path.stat().st_mode & 0o777)
    os.replace(temporary, path)
    factory.out.write(f'Switched to context "{name}".\n')
