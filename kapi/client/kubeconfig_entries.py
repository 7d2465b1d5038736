"""The entries of a kubeconfig file, with checked types (upstream: client-go ``tools/clientcmd/api/v1``).

Relative paths are relative to the file in which they are.  As in client-go, inline data (``*-data``) takes precedence over a
file.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from kapi.client.config_error import ConfigError
from kapi.codecs import plain_yaml
from kapi.machinery.golang import base64_bytes, file_error
from kapi.machinery.tree import Object, Tree

#: the lists of entries, and the key with the fields of an entry
LISTS = (("clusters", "cluster"), ("contexts", "context"), ("users", "user"))
_EXTENSIONS = {"extensions": "[]v1.NamedExtension"}
#: Go's types of the fields of each struct
_STRUCTS: dict[str, dict[str, str]] = {
    "Config": {
        **dict.fromkeys(("kind", "apiVersion", "current-context"), "string"),
        "preferences": "v1.Preferences",
        "clusters": "[]v1.NamedCluster",
        "users": "[]v1.NamedAuthInfo",
        "contexts": "[]v1.NamedContext",
        **_EXTENSIONS,
    },
    "Preferences": {"colors": "bool", **_EXTENSIONS},
    "NamedCluster": {"name": "string", "cluster": "v1.Cluster"},
    "NamedContext": {"name": "string", "context": "v1.Context"},
    "NamedAuthInfo": {"name": "string", "user": "v1.AuthInfo"},
    "NamedExtension": {"name": "string"},
    "Cluster": {
        **dict.fromkeys(("server", "tls-server-name", "certificate-authority", "proxy-url"), "string"),
        **dict.fromkeys(("insecure-skip-tls-verify", "disable-compression"), "bool"),
        "certificate-authority-data": "[]uint8",
        **_EXTENSIONS,
    },
    "Context": {**dict.fromkeys(("cluster", "user", "namespace"), "string"), **_EXTENSIONS},
    "AuthInfo": {
        **dict.fromkeys(("client-certificate", "client-key", "token", "tokenFile", "username", "password"), "string"),
        **dict.fromkeys(("as", "as-uid"), "string"),
        **dict.fromkeys(("client-certificate-data", "client-key-data"), "[]uint8"),
        "as-groups": "[]string",
        "as-user-extra": "map[string][]string",
        "auth-provider": "v1.AuthProviderConfig",
        "exec": "v1.ExecConfig",
        **_EXTENSIONS,
    },
    "AuthProviderConfig": {"name": "string", "config": "map[string]string"},
    "ExecConfig": {
        **dict.fromkeys(("command", "apiVersion", "installHint"), "string"),
        "interactiveMode": "v1.ExecInteractiveMode",
        "provideClusterInfo": "bool",
        "args": "[]string",
        "env": "[]v1.ExecEnvVar",
    },
    "ExecEnvVar": {"name": "string", "value": "string"},
}
_BETA = ("client.authentication.k8s.io/v1beta1", "client.authentication.k8s.io/v1alpha1")


class Entries(NamedTuple):
    """The entries of one file, by their names; ``more`` are its other fields, such as preferences."""

    current_context: str
    clusters: dict[str, Object]
    contexts: dict[str, Object]
    users: dict[str, Object]
    more: Object


def read_entries(data: bytes, path: str) -> Entries:
    """The entries in the content of a file; of those with the same name the first one.  Raises ConfigError."""
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
    _check(tree, "v1.Config", "Config", "", path)
    known = {"apiVersion", "kind", "current-context", *(plural for plural, _ in LISTS)}
    more = {name: value for name, value in tree.items() if name not in known}
    clusters, contexts, users = (_named(tree, *names) for names in LISTS)
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
    found: dict[str, Object] = {}
    for item in tree.get(plural) or ():
        found.setdefault((item or {}).get("name") or "", dict((item or {}).get(singular) or {}))
    return found


def _check(value: Tree, wanted: str, struct: str, field: str, path: str) -> None:
    """Raises ConfigError, in the words of Go's ``encoding/json``, if the value has not Go's type ``wanted``.

    ``field``: its path, in ``struct``.  The text does not quote the value: it may be a credential.  Unknown fields are not
    checked.
    """
    if value is None:
        return
    if wanted == "[]uint8" and isinstance(value, str):
        _check_base64(value, field, path)
    elif isinstance(value, list) and wanted.startswith("[]") and wanted != "[]uint8":
        for item in value:
            _check(item, wanted.removeprefix("[]"), struct, field, path)
    elif isinstance(value, dict) and wanted.startswith("map[string]"):
        for item in value.values():
            _check(item, wanted.removeprefix("map[string]"), struct, field, path)
    elif isinstance(value, dict) and (inner := wanted.removeprefix("v1.")) in _STRUCTS:
        for name, type_ in sorted(_STRUCTS[inner].items()):
            _check(value.get(name), type_, inner, f"{field}.{name}".lstrip("."), path)
    elif (
        not isinstance(value, bool if wanted == "bool" else str)
        or wanted.startswith(("[]", "map["))
        or _is_struct(wanted)
    ):
        from kapi.codecs.json_reading import kind_of

        why = f"json: cannot unmarshal {kind_of(value)} into Go struct field {struct}.{field} of type {wanted}"
        raise ConfigError(f'error loading config file "{path}": {why}', file=path, field=field)


def _is_struct(wanted: str) -> bool:
    return wanted.removeprefix("v1.") in _STRUCTS


def _check_base64(text: str, field: str, path: str) -> None:
    try:
        base64_bytes(text)
    except ValueError as error:
        raise ConfigError(f'error loading config file "{path}": {error}', file=path, field=field) from None


def read_pem(entry: Object, name: str, base: Path, path: str, owner: str) -> bytes:
    """The content of the field ``<name>-data`` of the entry ``owner``, or of the file in its field ``name``; empty without both.

    Raises ConfigError.
    """
    data, file = entry.get(f"{name}-data"), entry.get(name)
    if data:
        return base64_bytes(data)
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
