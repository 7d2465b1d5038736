"""Changes kubeconfig files: each entry in the file that it comes from (upstream: client-go ``tools/clientcmd`` ModifyConfig)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from kapi.client.clientcmd import Kubeconfig
from kapi.client.config_error import ConfigError
from kapi.client.kubeconfig_entries import LISTS
from kapi.client.replaced_file import replace_file
from kapi.machinery.tree import Object, Tree

#: fields in the order of Go's structs; fields with "!" are written even when they are empty
_ORDER = {
    kind: tuple(names.split())
    for kind, names in {
        "clusters": "server! tls-server-name insecure-skip-tls-verify certificate-authority certificate-authority-data proxy-url "
        "disable-compression extensions",
        "contexts": "cluster! user! namespace extensions",
        "users": "client-certificate client-certificate-data client-key client-key-data token tokenFile as as-uid as-groups "
        "as-user-extra username password auth-provider exec extensions",
        "auth-provider": "name! config!",
        "exec": "command! args! env! apiVersion installHint provideClusterInfo! interactiveMode",
    }.items()
}
_EMPTY: dict[str, Tree] = {
    "args": None,
    "env": None,
    "config": None,
    "provideClusterInfo": False,
}  # of other fields: ""
_MORE = ("preferences", "extensions")
_PATHS = {"clusters": ("certificate-authority",), "users": ("client-certificate", "client-key", "tokenFile")}
FILE_MODE, DIRECTORY_MODE = 0o600, 0o755


def written(kind: str, entry: Object, *, known: bool = False) -> Object:
    """The entry in the form of files: fields in order, without empty ones.  ``kind``: "clusters", "contexts" or "users"."""
    found: Object = {}
    for name in _ORDER[kind]:
        field, value = name.rstrip("!"), entry.get(name.rstrip("!"))
        if name.endswith("!") and value is None:
            value = _EMPTY.get(field, "")
        if isinstance(value, dict) and field in _ORDER:
            value = written(field, value, known=known)
        if value and field == "extensions":
            value = _extensions(value)
        if value or name.endswith("!"):
            found[field] = value
    return found if known else found | {field: value for field, value in entry.items() if field not in found and value}


def _extensions(found: list[Object | None]) -> list[Object]:
    named = sorted((one or {} for one in found), key=lambda one: one.get("name") or "")
    return [{"name": one.get("name") or "", "extension": one.get("extension")} for one in named]


def document(files: Kubeconfig, *, known: bool = False) -> Object:
    """The whole configuration as one file, in the order of Go's structs.  ``known``: without fields that these lack."""
    found: Object = {"kind": "Config", "apiVersion": "v1"}
    more = {field: value for field, value in _more(files).items() if not known or field in _MORE}
    if "preferences" in more:
        found["preferences"] = preferences = dict(more.pop("preferences"))
        if preferences.get("extensions"):
            preferences["extensions"] = _extensions(preferences["extensions"])
    if "extensions" in more:
        more["extensions"] = _extensions(more["extensions"])
    for plural, singular in (LISTS[0], LISTS[2], LISTS[1]):
        entries = files.entries[plural]
        found[plural] = [
            {"name": name, singular: written(plural, entries[name], known=known)} for name in sorted(entries)
        ] or None
    return {**found, "current-context": files.current_context, **more}


def _more(files: Kubeconfig) -> Object:
    return {field: value for field, value in files.more.items() if value}


def default_file(files: Kubeconfig) -> str:
    """The file for new entries: the first existing file, or the last one if none exists."""
    return next((path for path in files.sources if os.path.exists(path)), files.sources[-1])


def save(before: Kubeconfig, after: Kubeconfig, *, relative: bool) -> None:
    """Writes the differences.  ``relative``: paths in changed entries become relative to their file.

    Each file is replaced as a whole, while client-go's lock files keep other programs away.  Raises ConfigError.
    """
    entries = [change for plural, _ in LISTS for change in _changes(before, after, plural)]
    places = {file for file, *_ in entries}
    context_file = _context_file(before, after) if before.current_context != after.current_context else ""
    changed = _changed(before, after)
    more_file = _more_file(before, after, changed)
    with _locked(before.sources):
        for path in sorted(filter(None, {*places, context_file, more_file})):
            found = Kubeconfig(path)
            found.add_file(path)
            if path == context_file:
                found.current_context = after.current_context
            if path == more_file:
                found.more |= {name: after.more.get(name) for name in changed}
            for file, plural, name, entry in entries:
                if file != path:
                    continue
                if entry is None:
                    found.entries[plural].pop(name, None)
                else:
                    found.entries[plural][name] = _relative(plural, entry, path) if relative else entry
            _write(path, found)


def _changes(before: Kubeconfig, after: Kubeconfig, plural: str) -> Iterator[tuple[str, str, str, Object | None]]:
    """File, list, name and new fields of each changed entry; no fields for a removed entry."""
    old, new = before.entries[plural], after.entries[plural]
    for name in {**new, **old}:
        entry = new.get(name)
        if name not in old or entry is None or written(plural, old[name]) != written(plural, entry):
            origin = before.origin if entry is None else after.origin
            yield origin.get((plural, name)) or default_file(before), plural, name, entry


def _context_file(before: Kubeconfig, after: Kubeconfig) -> str:
    """The file for the current context: it is set in the file for new entries, and unset in the file that has it."""
    if before.explicit or after.current_context:
        return before.explicit or default_file(before)
    for path in before.files:
        found = Kubeconfig(path)
        found.add_file(path)
        if found.current_context:
            return path
    raise ConfigError("no config found to write context")


def _more_file(before: Kubeconfig, after: Kubeconfig, names: set[str]) -> str:
    """The file for changed fields beside entries, such as preferences: the first that has others."""
    if not names:
        return ""
    if before.explicit:
        return before.explicit
    for path in before.sources:
        found = Kubeconfig(path)
        found.add_file(path)
        if _changed(found, after) & names:
            return path
    return default_file(before)


def _changed(before: Kubeconfig, after: Kubeconfig) -> set[str]:
    """The names of fields beside entries that differ."""
    old, new = (
        {name: _given(value) if name == "preferences" else value for name, value in _more(files).items()}
        for files in (before, after)
    )
    return {name for name in {**old, **new} if (old.get(name) or None) != (new.get(name) or None)}


def _given(preferences: Object) -> Object:
    return {name: value for name, value in preferences.items() if value}


def _relative(plural: str, entry: Object, file: str) -> Object:
    """The entry with paths below the directory of its file relative to that."""
    base = os.path.dirname(os.path.abspath(file))
    found = dict(entry)
    for field in _PATHS.get(plural, ()):
        if found.get(field):
            found[field] = _below(base, found[field])
    plugin = found.get("exec") or {}
    if os.sep in (plugin.get("command") or ""):  # others are looked for on the PATH
        command = _below(base, plugin["command"])
        found["exec"] = {**plugin, "command": command if os.sep in command else f".{os.sep}{command}"}
    return found


def _below(base: str, path: str) -> str:
    path = os.path.normpath(os.path.join(base, path))
    below = os.path.relpath(path, base)
    return path if below.startswith("..") else below


@contextlib.contextmanager
def _locked(paths: Iterable[str]) -> Iterator[None]:
    """Locks files.  Raises ConfigError if another program has a lock."""
    locks: list[str] = []
    try:
        for path in sorted(paths):
            lock = f"{path}.lock"
            os.makedirs(os.path.dirname(lock) or ".", DIRECTORY_MODE, exist_ok=True)
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL, 0))
            locks.append(lock)
        yield
    except OSError as error:
        raise ConfigError(f"open {error.filename}: {(error.strerror or str(error)).lower()}") from None
    finally:
        for lock in locks:
            os.remove(lock)


def _write(path: str, files: Kubeconfig) -> None:
    """Writes a file; keeps its mode, and a symbolic link to it."""
    from kapi.codecs.yaml_writing import dump_yaml

    target = Path(os.path.realpath(path))
    mode = target.stat().st_mode & 0o777 if target.exists() else FILE_MODE
    replace_file(target, dump_yaml(document(files)), mode, DIRECTORY_MODE)
