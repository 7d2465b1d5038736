"""``kapi config set`` and ``kapi config unset``: one value by its path in the file (upstream: kubectl ``cmd/config``).

Fields have the names of client-go's internal types, which differ from the names in files for impersonation.
"""

from __future__ import annotations

import base64

from kapi.client.clientcmd import Kubeconfig
from kapi.kubectl.command import Command, Help
from kapi.kubectl.config_entries import changing, unexpected
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import Flag
from kapi.kubectl.messages import CommandError
from kapi.machinery.golang import base64_bytes, parse_bool, quote
from kapi.machinery.tree import Object, Tree

_TEXT, _BOOL, _BYTES, _LIST, _MAP, _POINTER = range(6)
_LISTS = ("clusters", "contexts", "users")
_ENTRY = {"extensions": _MAP}
_FIELDS: dict[str, dict[str, int]] = {
    "clusters": {
        **dict.fromkeys(("server", "tls-server-name", "certificate-authority", "proxy-url"), _TEXT),
        **dict.fromkeys(("insecure-skip-tls-verify", "disable-compression"), _BOOL),
        "certificate-authority-data": _BYTES,
    }
    | _ENTRY,
    "contexts": dict.fromkeys(("cluster", "user", "namespace"), _TEXT) | _ENTRY,
    "users": {
        **dict.fromkeys(("client-certificate", "client-key", "token", "tokenFile", "username", "password"), _TEXT),
        **dict.fromkeys(("act-as", "act-as-uid"), _TEXT),
        **dict.fromkeys(("client-certificate-data", "client-key-data"), _BYTES),
        **dict.fromkeys(("auth-provider", "exec"), _POINTER),
        "act-as-groups": _LIST,
        "act-as-user-extra": _MAP,
    }
    | _ENTRY,
    "preferences": {"colors": _BOOL} | _ENTRY,
}
_TOP = (*_LISTS, "preferences", "current-context", "extensions", "kind", "apiVersion")


async def _set(factory: Factory, program: str) -> int:
    flags = factory.flags
    if len(flags.arguments) != 2:
        raise unexpected(factory)
    name, value = flags.arguments
    if not value:
        raise CommandError("you cannot use set to unset a property")
    with changing(factory, relative=False) as files:
        _Property(files, _checked(name)).set(value, raw=flags.get_bool("set-raw-bytes"))
    factory.out.write(f"Property {quote(name)} set.\n")
    return 0


async def _unset(factory: Factory, program: str) -> int:
    if len(factory.flags.arguments) != 1:
        raise unexpected(factory)
    name = factory.flags.arguments[0]
    with changing(factory, relative=False) as files:
        _Property(files, _checked(name)).unset()
    factory.out.write(f"Property {quote(name)} unset.\n")
    return 0


def _checked(name: str) -> str:
    if not name:
        raise CommandError("you must specify a property")
    return name


class _Property:
    """A place in the files: ``clusters.NAME.FIELD``, where a name ends before the first field, or a field of the file."""

    def __init__(self, files: Kubeconfig, path: str) -> None:
        """Raises CommandError for an invalid path."""
        self._files, self._path = files, path
        self._top, *rest = path.split(".")
        self._name = self._field = ""
        if self._top not in _TOP:
            raise CommandError(f"unable to parse {path} after [] at api.Config")
        if self._top in _LISTS and rest:
            fields = _FIELDS[self._top]
            end = next((place for place, part in enumerate(rest) if place and part in fields), len(rest))
            self._name, rest = ".".join(rest[:end]), rest[end:]
            self._named = True
        else:
            self._named = False
        if rest and self._top in _FIELDS:
            self._field, *rest = rest
        if rest or self._field and self._field not in _FIELDS[self._top]:
            raise self._unparsed()

    def _unparsed(self) -> CommandError:
        if self._field == "act-as-user-extra":
            return CommandError("string is not of type struct")
        return CommandError(f"unable to parse one or more field values of {self._path}")

    def set(self, value: str, *, raw: bool) -> None:
        """Sets the value.  Raises CommandError for a field without a single value, and for a value of another type."""
        if self._field:
            self._target()[self._field.removeprefix("act-")] = self._parsed(value, raw)
        elif self._top == "current-context":
            self._files.current_context = value
        elif self._top in ("preferences", "extensions") or self._top in _LISTS:
            found = self._files.entries.get(self._top) or {}
            raise CommandError(f"can't set a map to a value: map[{' '.join(sorted(found))}]")

    def _target(self) -> Object:
        """The object with the field, which is made when it is missing."""
        if self._top == "preferences":
            preferences: Object = self._files.more.get("preferences") or {}
            self._files.more["preferences"] = preferences
            return preferences
        return self._files.entries[self._top].setdefault(self._name, {})

    def _parsed(self, value: str, raw: bool) -> Tree:
        kind = _FIELDS[self._top][self._field]
        if kind == _TEXT:
            return value
        if kind == _BOOL:
            try:
                return parse_bool(value)
            except ValueError as error:
                raise CommandError(str(error)) from None
        if kind == _BYTES:
            return base64.b64encode(value.encode()).decode() if raw else _base64(value)
        if kind == _LIST:
            raise CommandError("unrecognized slice type. string")
        if kind == _MAP:
            found = self._target().get(self._field.removeprefix("act-")) or ()
            names = ((one or {}).get("name") or "" for one in found) if self._field == "extensions" else found
            raise CommandError(f"can't set a map to a value: map[{' '.join(sorted(names))}]")
        raise self._unparsed()

    def unset(self) -> None:
        """Removes the value.  Raises CommandError for a field of a missing entry."""
        entries = self._files.entries.get(self._top, {})
        if self._field:
            if self._top in _LISTS and self._name not in entries:
                raise CommandError(f"current map key `{self._name}` is invalid")
            self._target().pop(self._field.removeprefix("act-"), None)
        elif self._named:
            entries.pop(self._name, None)
        elif self._top == "current-context":
            self._files.current_context = ""
        else:
            entries.clear()
            self._files.more.pop(self._top, None)


def _base64(text: str) -> str:
    try:
        return base64.b64encode(base64_bytes(text)).decode()
    except ValueError as error:
        raise CommandError(f"error decoding input value: {error}") from None


COMMANDS = (
    Command(
        "set", "Set one value of a file", _set,
        (Flag("set-raw-bytes", "bool", help="The value of a field of bytes is these bytes, and not base64."),),
        Help(
            "PROPERTY_NAME PROPERTY_VALUE",
            "Sets one value. Its name is the way to it: the name of an entry, for instance, comes after clusters.",
            ("Set the server of a cluster", "config set clusters.test.server https://192.0.2.1:6443"),
            ("Set the current context", "config set current-context test"),
        ),
    ),
    Command(
        "unset", "Remove one value of a file", _unset,
        help=Help(
            "PROPERTY_NAME",
            "Removes one value. Its name is the way to it: the name of an entry, for instance, comes after clusters.",
            ("Have no current context", "config unset current-context"),
            ("Remove the namespace of a context", "config unset contexts.test.namespace"),
        ),
    ),
)  # fmt: skip
