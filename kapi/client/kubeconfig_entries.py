"""The entries of a kubeconfig file, with checked types (upstream: client-go ``tools/clientcmd/api/v1``).

Relative paths are relative to the file in which they are.  As in client-go, inline data (``*-data``) takes precedence over a
file.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from kapi.client.config_error import ConfigError
from kapi.client.typed import Check, WrongType, base64, boolean, list_of, map_of, or_null, string, struct, text
from kapi.codecs import plain_yaml
from kapi.machinery.golang import file_error, json_bytes, value_text
from kapi.machinery.tree import Object, Tree

#: the lists of entries, and the key with the fields of an entry
LISTS = (("clusters", "cluster"), ("contexts", "context"), ("users", "user"))


def _each(item: Check, go_type: str) -> Check:
    return list_of(or_null(item), go_type)


# Go's types of the fields of each struct, in the order in which they are looked at
_EXTENSIONS = _each(struct("v1.NamedExtension", name=string), "v1.NamedExtension")
_CLUSTER = struct("v1.Cluster", **{
    "certificate-authority": string, "certificate-authority-data": base64, "disable-compression": boolean,
    "extensions": _EXTENSIONS, "insecure-skip-tls-verify": boolean, "proxy-url": string, "server": string,
    "tls-server-name": string,
})  # fmt: skip
_CONTEXT = struct("v1.Context", cluster=string, extensions=_EXTENSIONS, namespace=string, user=string)
_PROVIDER = struct("v1.AuthProviderConfig", config=map_of(or_null(string)), name=string)
_PLUGIN = struct(
    "v1.ExecConfig", apiVersion=string, args=_each(string, "string"), command=string,
    env=_each(struct("v1.ExecEnvVar", name=string, value=string), "v1.ExecEnvVar"), installHint=string,
    interactiveMode=text("v1.ExecInteractiveMode"), provideClusterInfo=boolean,
)  # fmt: skip
_USER = struct("v1.AuthInfo", **{
    "as": string, "as-groups": _each(string, "string"), "as-uid": string,
    "as-user-extra": map_of(or_null(_each(string, "string")), "[]string"), "auth-provider": _PROVIDER,
    "client-certificate": string, "client-certificate-data": base64, "client-key": string, "client-key-data": base64,
    "exec": _PLUGIN, "extensions": _EXTENSIONS, "password": string, "token": string, "tokenFile": string, "username": string,
})  # fmt: skip
_CONFIG = struct("v1.Config", **{
    "apiVersion": string,
    "clusters": _each(struct("v1.NamedCluster", cluster=_CLUSTER, name=string), "v1.NamedCluster"),
    "contexts": _each(struct("v1.NamedContext", context=_CONTEXT, name=string), "v1.NamedContext"),
    "current-context": string,
    "extensions": _EXTENSIONS,
    "kind": string,
    "preferences": struct("v1.Preferences", colors=boolean, extensions=_EXTENSIONS),
    "users": _each(struct("v1.NamedAuthInfo", name=string, user=_USER), "v1.NamedAuthInfo"),
})  # fmt: skip
#: the fields of contexts and clusters in Go's order, with their zero values
_SHOWN: dict[str, dict[str, Tree]] = {
    "context": {"cluster": "", "user": "", "namespace": "", "extensions": []},
    "cluster": {
        "server": "", "tls-server-name": "", "insecure-skip-tls-verify": False, "certificate-authority": "",
        "certificate-authority-data": [], "proxy-url": "", "disable-compression": False, "extensions": [],
    },
}  # fmt: skip
_BETA = ("client.authentication.k8s.io/v1beta1", "client.authentication.k8s.io/v1alpha1")


class Entries(NamedTuple):
    """The entries of one file, by their names; ``more`` are its other fields, such as preferences."""

    current_context: str
    clusters: dict[str, Object]
    contexts: dict[str, Object]
    users: dict[str, Object]
    more: Object


def read_entries(data: bytes, path: str) -> Entries:
    """The entries in the content of a file.  Raises ConfigError, also for two of the same name."""
    tree: Tree = plain_yaml.loads(data)
    if tree is None and data.strip():
        from kapi.codecs import yaml_reading  # takes a tenth of the time of a command

        try:
            tree, _ = yaml_reading.loads(data)
        except ValueError as error:
            raise ConfigError(f'error loading config file "{path}": {error}', file=path) from None
    if tree is None:
        tree = {}
    if not isinstance(tree, dict) or not _is_config(tree):
        raise ConfigError(f'error loading config file "{path}": {_no_config(tree)}', file=path)
    _check(tree, path)
    known = {"apiVersion", "kind", "current-context", *(plural for plural, _ in LISTS)}
    more = {name: value for name, value in tree.items() if name not in known}
    try:
        clusters, users, contexts = (_named(tree, *names) for names in (LISTS[0], LISTS[2], LISTS[1]))
    except ValueError as error:
        raise ConfigError(f'error loading config file "{path}": {error}', file=path) from None
    for user in users.values():
        plugin = user.get("exec")
        if plugin and plugin.get("apiVersion") in _BETA and not plugin.get("interactiveMode"):
            user["exec"] = {**plugin, "interactiveMode": "IfAvailable"}
    return Entries(tree.get("current-context") or "", clusters, contexts, users, more)


def _is_config(tree: Object) -> bool:
    """Whether it has the type of kubeconfig files, which may be left out."""
    return (tree.get("apiVersion") or "v1", tree.get("kind") or "Config") == ("v1", "Config")


def _no_config(tree: Tree) -> str:
    from kapi.codecs.reading import as_object, type_meta

    try:
        version, kind = type_meta(as_object(tree))
    except ValueError as error:
        return str(error)
    scheme = "k8s.io/client-go/tools/clientcmd/api/latest/latest.go:50"
    return f'no kind "{kind or "Config"}" is registered for version "{version or "v1"}" in scheme "{scheme}"'


def _named(tree: Object, plural: str, singular: str) -> dict[str, Object]:
    """Raises ValueError for two entries of the same name."""
    found: dict[str, Object] = {}
    items = [
        ((item or {}).get("name") or "", dict((item or {}).get(singular) or {})) for item in tree.get(plural) or ()
    ]
    for name, entry in items:
        if name in found:
            kind, shown = "AuthInfo", "..."  # no credentials
            if singular != "user":
                kind, shown = singular.capitalize(), f"[{' '.join(_shown(singular, *item) for item in items)}]"
            raise ValueError(
                f'error converting *[]Named{kind} into *map[string]*api.{kind}: duplicate name "{name}" in list: {shown}'
            )
        found[name] = entry
    return found


def _shown(singular: str, name: str, entry: Object) -> str:
    """A named cluster or context in the form of Go's ``%v``."""
    values = (_go_value(field, entry.get(field), zero) for field, zero in _SHOWN[singular].items())
    return f"{{{name} {{{' '.join(map(value_text, values))}}}}}"


def _go_value(field: str, value: Tree, zero: Tree) -> Tree:
    """The value of a field as Go has it: bytes are numbers, extensions are texts already; URLs are without credentials."""
    from kapi.client.config import without_user  # only for an error

    if value is None:
        return zero
    if field.endswith("-data"):
        return [*json_bytes(value)]
    if field == "extensions":
        return [_extension(one or {}) for one in value]
    return without_user(value) if field in ("server", "proxy-url") else value


def _extension(named: Object) -> str:
    from kapi.machinery.go_json import json_text  # only for an error

    value = named.get("extension")
    raw = b"" if value is None else json_text(value).encode()
    return f"{{{named.get('name') or ''} {{{value_text([*raw])} <nil>}}}}"


def _check(tree: Object, path: str) -> None:
    """Raises ConfigError, which does not quote the value: it may be a credential.  Unknown fields are not checked."""
    try:
        _CONFIG(tree, "Config")
    except WrongType as error:
        raise ConfigError(f'error loading config file "{path}": {error}', file=path, field=error.path) from None


def read_pem(entry: Object, name: str, base: Path, path: str, owner: str) -> bytes:
    """The content of the field ``<name>-data`` of the entry ``owner``, or of the file in its field ``name``; empty without both.

    Raises ConfigError.
    """
    data, file = entry.get(f"{name}-data"), entry.get(name)
    if data:
        return json_bytes(data)
    return read_content(base, file, name, path, owner) if file else b""


def read_content(base: Path, file: str, name: str, path: str, owner: str) -> bytes:
    """The content of a file that the field ``name`` of ``owner`` in the kubeconfig ``path`` refers to.  Raises ConfigError."""
    try:
        return (base / file).read_bytes()
    except OSError as error:
        why = file_error(error)
        if name != "tokenFile" and not isinstance(error, IsADirectoryError):
            why = unread(name, base / file, owner, error)
        raise ConfigError(why, file=path, field=name) from None


def unread(name: str, file: Path, owner: str, error: OSError) -> str:
    """Why the file of the field ``name`` of ``owner`` cannot be read."""
    what = name.replace("client-certificate", "client-cert")
    return f"unable to read {what} {file} for {owner} due to {file_error(error)}"


def check_one_method(name: str, token: str, username: str, password: str, path: str) -> None:
    """Raises ConfigError if the user ``name`` has both a token and a password: client-go does not choose between them."""
    if token and (username or password):
        why = f"more than one authentication method found for {name}; found [token basicAuth], only one is allowed"
        raise ConfigError(why, file=path, field=f"users[{name}]")
