"""``kapi config set-context``, ``set-cluster`` and ``set-credentials`` (upstream: kubectl ``cmd/config``).

``changing`` is for all subcommands that change files.
"""

from __future__ import annotations

import base64
import contextlib
import copy
import os
from collections.abc import Iterator

from kapi.client.clientcmd import Kubeconfig
from kapi.kubectl.command import Command, Help
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import Flag, Flags, UsageError, read_pairs
from kapi.kubectl.messages import CommandError
from kapi.machinery.golang import quote
from kapi.machinery.tree import Object

_MODES = ("IfAvailable", "Never", "Always")
_CERTIFICATES = ("client-certificate", "client-key")


@contextlib.contextmanager
def changing(factory: Factory, *, relative: bool = True) -> Iterator[Kubeconfig]:
    """The files to be changed, which are written at the end.  ``relative``: paths become relative to their file.

    Raises ConfigError.
    """
    from kapi.client.kubeconfig_changes import save

    before = factory.kubeconfig(must_exist=False)
    after = copy.deepcopy(before)
    yield after
    save(before, after, relative=relative)


def help_text(factory: Factory) -> str:
    """The help of the command itself."""
    from kapi.kubectl.main import help_of

    return help_of(factory.command.split())


def unexpected(factory: Factory, what: str = "Unexpected args") -> CommandError:
    """The error for a wrong number of arguments, after the help."""
    return CommandError(f"{what}: [{' '.join(factory.flags.arguments)}]", output=help_text(factory))


async def _set_context(factory: Factory, program: str) -> int:
    flags = factory.flags
    if len(flags.arguments) > 1:
        raise unexpected(factory)
    name, current = flags.arguments[0] if flags.arguments else "", flags.get_bool("current")
    if not name and not current:
        raise CommandError("you must specify a non-empty context name or --current")
    if name and current:
        raise CommandError("you cannot specify both a context name and --current")
    with changing(factory) as files:
        name = name or files.current_context
        if not name:
            raise CommandError("no current context is set")
        contexts = files.entries["contexts"]
        done = "modified" if name in contexts else "created"
        contexts.setdefault(name, {}).update(_given(flags, "cluster", "user", "namespace"))
    factory.out.write(f"Context {quote(name)} {done}.\n")
    return 0


def _given(flags: Flags, *names: str) -> Object:
    """The fields whose flags are given."""
    return {name: flags.get_string(name) for name in names if flags.given(name)}


async def _set_cluster(factory: Factory, program: str) -> int:
    flags = factory.flags
    if len(flags.arguments) != 1:
        raise unexpected(factory)
    insecure, embed, authority = (
        flags.get_bool("insecure-skip-tls-verify"),
        flags.get_bool("embed-certs"),
        "certificate-authority",
    )
    if insecure and flags.get_string(authority):
        raise CommandError("you cannot specify a certificate authority and insecure mode at the same time")
    if embed:
        if not flags.get_string(authority):
            raise CommandError(f"you must specify a --{authority} to embed")
        _check_file(authority, flags.get_string(authority))
    name = flags.arguments[0]
    with changing(factory) as files:
        cluster = files.entries["clusters"].setdefault(name, {})
        if flags.given("server"):
            cluster.pop("tls-server-name", None)  # it belongs to another server
        cluster.update(_given(flags, "server", "tls-server-name", "proxy-url"))
        if flags.given("insecure-skip-tls-verify"):
            cluster["insecure-skip-tls-verify"] = insecure
            if insecure:
                cluster.update({authority: "", f"{authority}-data": ""})
        if flags.given(authority):
            cluster["insecure-skip-tls-verify"] = False
            _set_file(cluster, authority, flags.get_string(authority), embed)
    factory.out.write(f"Cluster {quote(name)} set.\n")
    return 0


def _check_file(name: str, path: str) -> None:
    """Raises CommandError for a missing file."""
    try:
        os.stat(path)
    except OSError as error:
        raise CommandError(f"could not stat {name} file {path}: stat {path}: {str(error.strerror).lower()}") from None


def _set_file(entry: Object, field: str, path: str, embed: bool) -> None:
    """Sets the path of a file, or its content."""
    if not embed:
        entry.update({field: os.path.abspath(path), f"{field}-data": ""})
        return
    data = b""
    if path:
        with contextlib.suppress(OSError), open(path, "rb") as file:  # as kubectl, of a directory
            data = file.read()
    entry.update({field: "", f"{field}-data": base64.b64encode(data).decode()})


async def _set_credentials(factory: Factory, program: str) -> int:
    flags = factory.flags
    if len(flags.arguments) != 1:
        raise unexpected(factory, "unexpected args")
    pairs = {name: _pairs(factory, name) for name in ("auth-provider-arg", "exec-env")}
    name = flags.arguments[0]
    if not name:
        raise CommandError("you must specify a non-empty user name")
    _check_credentials(flags)
    with changing(factory) as files:
        user = files.entries["users"].setdefault(name, {})
        for field in _CERTIFICATES:
            if flags.given(field):
                _set_file(user, field, flags.get_string(field), flags.get_bool("embed-certs"))
        user.update(_given(flags, "token", "username", "password"))
        _set_provider(flags, user, *pairs["auth-provider-arg"])
        _set_exec(flags, user, *pairs["exec-env"])
        token, basic = flags.get_string("token"), flags.get_string("username") or flags.get_string("password")
        if token and not basic:  # one way to log in replaces the other
            user.update(username="", password="")
        elif basic:
            user["token"] = ""
    factory.out.write(f"User {quote(name)} set.\n")
    return 0


def _pairs(factory: Factory, name: str) -> tuple[dict[str, str], list[str]]:
    """The values of a flag of KEY=VALUE and KEY-.  Raises CommandError, with the help."""
    try:
        return read_pairs(factory.flags, name)
    except UsageError as error:
        raise CommandError(str(error), output=help_text(factory)) from None


def _check_credentials(flags: Flags) -> None:
    """Raises CommandError."""
    if flags.get_string("token") and (flags.get_string("username") or flags.get_string("password")):
        raise CommandError(
            "you cannot specify more than one authentication method at the same time: --token, --username/--password"
        )
    if flags.get_bool("embed-certs"):
        given = {field: flags.get_string(field) for field in _CERTIFICATES if flags.get_string(field)}
        if not given:
            raise CommandError("you must specify a --client-certificate or --client-key to embed")
        for field, path in given.items():
            _check_file(field, path)
    if flags.given("exec-interactive-mode") and flags.get_string("exec-interactive-mode") not in _MODES:
        raise CommandError(f"invalid interactive mode type, can be only {', '.join(_MODES)}")


def _set_provider(flags: Flags, user: Object, setting: dict[str, str], removing: list[str]) -> None:
    """Sets the auth provider; arguments count only with an existing or new provider."""
    name = flags.get_string("auth-provider")
    if flags.given("auth-provider") and (user.get("auth-provider") or {}).get("name") != name:
        user["auth-provider"] = {"name": name}
    provider = user.get("auth-provider")
    if provider is None:
        return
    config = {key: value for key, value in (provider.get("config") or {}).items() if key not in removing}
    provider["config"] = config | setting


def _set_exec(flags: Flags, user: Object, setting: dict[str, str], removing: list[str]) -> None:
    """Sets the fields of an existing or new credential plugin."""
    if flags.given("exec-command"):
        plugin = user.setdefault("exec", {})
        plugin.update(command=flags.get_string("exec-command"), args=None)
    plugin = user.get("exec")
    if plugin is None:
        return
    if flags.given("exec-api-version"):
        plugin["apiVersion"] = flags.get_string("exec-api-version")
    if flags.get_list("exec-arg"):
        plugin["args"] = flags.get_list("exec-arg")
    if flags.given("exec-interactive-mode"):
        plugin["interactiveMode"] = flags.get_string("exec-interactive-mode")
    if flags.given("exec-provide-cluster-info"):
        plugin["provideClusterInfo"] = flags.get_bool("exec-provide-cluster-info")
    if setting or removing:
        kept = {one["name"]: one.get("value", "") for one in plugin.get("env") or () if one["name"] not in removing}
        plugin["env"] = [{"name": key, "value": value} for key, value in (kept | setting).items()]


COMMANDS = (
    Command(
        "set-cluster", "Set the fields of a cluster", _set_cluster,
        Help(
            "NAME [--server=URL] [--certificate-authority=FILE] [--insecure-skip-tls-verify=true] [--tls-server-name=NAME]",
            "Sets fields of a cluster; those that no flag names stay.",
            ("Set the address", "config set-cluster test --server=https://192.0.2.1:6443"),
            ("Embed the authorities", "config set-cluster test --embed-certs --certificate-authority=ca.crt"),
        ),
        Flag("server", help="The address of the server."),
        Flag("tls-server-name", help="The name in the server's certificate, where it is not that of the address."),
        Flag("insecure-skip-tls-verify", "bool", help="The server's certificate is not verified."),
        Flag("certificate-authority", help="The file with the certificates of the authorities."),
        Flag("embed-certs", "bool", help="Put the content of the file into the kubeconfig file."),
        Flag("proxy-url", help="The proxy on the way to the server."),
    ),
    Command(
        "set-context", "Set the fields of a context", _set_context,
        Help(
            "[NAME | --current] [--cluster=CLUSTER] [--user=USER] [--namespace=NAMESPACE]",
            "Sets fields of a context; those that no flag names stay.",
            ("Set the namespace of the current context", "config set-context --current --namespace=test"),
            ("Make a context", "config set-context test --cluster=test --user=admin"),
        ),
        Flag("current", "bool", help="Change the current context."),
        Flag("cluster", help="The cluster of the context."),
        Flag("user", help="The user of the context."),
        Flag("namespace", short="n", help="The namespace of the context."),
    ),
    Command(
        "set-credentials", "Set the fields of a user", _set_credentials,
        Help(
            "NAME [--client-certificate=FILE] [--client-key=FILE] [--token=TOKEN] [--username=NAME] [--password=PASSWORD]",
            "Sets fields of a user; those that no flag names stay. A token replaces name and password, and the other way round.",
            ("Set a token", "config set-credentials admin --token=abcdef"),
            ("Embed a certificate", "config set-credentials admin --client-certificate=a.crt --embed-certs"),
            ("Use a credential plugin", "config set-credentials admin --exec-command=get-token --exec-arg=--now"),
        ),
        Flag("client-certificate", help="The file with the certificate."),
        Flag("client-key", help="The file with the key of the certificate."),
        Flag("embed-certs", "bool", help="Put the content of the files into the kubeconfig file."),
        Flag("token", help="The bearer token."),
        Flag("username", help="The name for basic authentication."),
        Flag("password", help="The password for basic authentication."),
        Flag("auth-provider", help="The name of the auth provider."),
        Flag("auth-provider-arg", "list", help="KEY=VALUE for the auth provider, or KEY- to remove one; may be repeated."),
        Flag("exec-command", help="The program that gets credentials."),
        Flag("exec-api-version", help="The version of the interface to the program."),
        Flag("exec-arg", "list", help="An argument of the program; may be repeated."),
        Flag("exec-env", "array", help="KEY=VALUE for the program's environment, or KEY- to remove one; may be repeated."),
        Flag("exec-interactive-mode", help="Whether the program gets standard input: IfAvailable, Never or Always."),
        Flag("exec-provide-cluster-info", "bool", help="The program is told of the cluster."),
    ),
)  # fmt: skip
