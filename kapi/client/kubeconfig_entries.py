"""The entries of a kubeconfig file, with checked types (upstream: client-go ``tools/clientcmd/api/v1``).

Relative paths are relative to the file in which they are.  As in client-go, inline data (``*-data``) takes precedence over a
file.
"""

from __future__ import annotations

import base64
import binascii
from pathlib import Path
from typing import NamedTuple

from kapi.client.config_error import ConfigError, DirectoryError
from kapi.codecs import plain_yaml
from kapi.machinery.golang import file_error
from kapi.machinery.tree import Object, Tree

#: the lists of entries, and the key with the fields of an entry
LISTS = (("clusters", "cluster"), ("contexts", "context"), ("users", "user"))
#: the types of fields, since ``insecure-skip-tls-verify: "false"`` would otherwise count as true
_TYPES: dict[str, type] = {
    **dict.fromkeys(
        ("server", "tls-server-name", "certificate-authority", "certificate-authority-data", "proxy-url"), str
    ),
    **dict.fromkeys(("insecure-skip-tls-verify", "disable-compression"), bool),
    **dict.fromkeys(("cluster", "user", "namespace"), str),
    **dict.fromkeys(("client-certificate", "client-certificate-data", "client-key", "client-key-data"), str),
    **dict.fromkeys(("token", "tokenFile", "username", "password", "as", "as-uid"), str),
    **dict.fromkeys(("exec", "auth-provider", "as-user-extra"), dict),
    "as-groups": list,
}
_JSON_NAMES = {str: "string", bool: "bool", list: "array", dict: "object", int: "number", float: "number"}


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
    known = {"apiVersion", "kind", "current-context", *(plural for plural, _ in LISTS)}
    more = {name: value for name, value in tree.items() if name not in known}
    clusters, contexts, users = (_named(tree, *names, path) for names in LISTS)
    return Entries(str(tree.get("current-context") or ""), clusters, contexts, users, more)


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


def _named(tree: Object, plural: str, singular: str, path: str) -> dict[str, Object]:
    items = tree.get(plural) or []
    if not isinstance(items, list):
        raise ConfigError("must be a list", file=path, field=plural)
    found: dict[str, Object] = {}
    for index, item in enumerate(items):
        inner = item.get(singular) if isinstance(item, dict) else None
        if not isinstance(item, dict) or not isinstance(inner, dict | None):
            raise ConfigError("must be a mapping", file=path, field=f"{plural}[{index}]")
        name = str(item.get("name") or "")
        _check_types(inner or {}, f"{plural}[{name}]", path)
        found.setdefault(name, dict(inner or {}))
    return found


def _check_types(entry: Object, where: str, path: str) -> None:
    """Raises ConfigError, which does not quote the value: it may be a credential.  Unknown fields are not checked."""
    for name, value in entry.items():
        wanted = _TYPES.get(name)
        if wanted is not None and value is not None and not isinstance(value, wanted):
            why = f"cannot unmarshal {_JSON_NAMES.get(type(value), 'value')} into a field of type {_JSON_NAMES[wanted]}"
            raise ConfigError(why, file=path, field=f"{where}.{name}")


def read_pem(entry: Object, name: str, base: Path, path: str, owner: str) -> bytes:
    """The content of the field ``<name>-data`` of the entry ``owner``, or of the file in its field ``name``; empty without both.

    Raises ConfigError.
    """
    data, file = entry.get(f"{name}-data"), entry.get(name)
    if data:
        try:
            return base64.b64decode(data, validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise ConfigError("illegal base64 data", file=path, field=f"{name}-data") from None
    return read_content(base, file, name, path, owner) if file else b""


def read_content(base: Path, file: str, name: str, path: str, owner: str) -> bytes:
    """The content of a file that the field ``name`` of ``owner`` in the kubeconfig ``path`` refers to.  Raises ConfigError."""
    try:
        return (base / file).read_bytes()
    except IsADirectoryError as error:
        raise DirectoryError(file_error(error), file=path, field=name) from None
    except OSError as error:
        what = name.replace("client-certificate", "client-cert")
        why = file_error(error)
        if name != "tokenFile":
            why = f"unable to read {what} {base / file} for {owner} due to {why}"
        raise ConfigError(why, file=path, field=name) from None


def check_one_method(name: str, token: str, username: str, password: str, path: str) -> None:
    """Raises ConfigError if the user ``name`` has both a token and a password: client-go does not choose between them."""
    if token and (username or password):
        why = f"more than one authentication method found for {name}; found [token basicAuth], only one is allowed"
        raise ConfigError(why, file=path, field=f"users[{name}]")
