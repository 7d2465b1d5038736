"""kubeconfig files: merged, read, made into a Config (upstream: client-go ``tools/clientcmd``).

Of several files the first that has an entry of a name, or a current context, wins.  Relative paths in a file are relative
to it; what stands inline (``*-data``, ``token``) wins over a file as in client-go, but for ``tokenFile``, which wins over
``token``.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kapi.client.config import Config, ConfigError, Impersonation
from kapi.client.credentials import NO_CREDENTIALS, Authenticator, TokenFile, basic, bearer
from kapi.client.incluster import SERVICE_ACCOUNT, in_cluster_config
from kapi.codecs import yaml_reading
from kapi.machinery.tree import Object
from kapi.request.reactor import Reactor, installed_reactor

_LISTS = (("clusters", "cluster"), ("contexts", "context"), ("users", "user"))
#: what the fields of an entry hold: ``insecure-skip-tls-verify: "false"`` would count as true otherwise
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


@dataclass(slots=True)
class Overrides:
    """What the command line says over the files."""

    context: str = ""
    cluster: str = ""
    user: str = ""
    namespace: str = ""
    server: str = ""
    token: str = ""
    tls_server_name: str = ""
    insecure: bool = False
    certificate_authority: str = ""
    client_certificate: str = ""
    client_key: str = ""
    as_user: str = ""
    as_groups: Sequence[str] = ()
    as_uid: str = ""
    as_extra: Mapping[str, Sequence[str]] = field(default_factory=dict)
    username: str = ""
    password: str = ""
    proxy_url: str = ""
    timeout: float = 0.0


class Kubeconfig:
    """One or more files, merged.  ``tree`` is the merged document, with every entry's file in ``origin``."""

    def __init__(self) -> None:
        self.tree: Object = {"apiVersion": "v1", "kind": "Config", "current-context": "", "preferences": {}}
        self.entries: dict[str, dict[str, Object]] = {plural: {} for plural, _ in _LISTS}
        self.origin: dict[tuple[str, str], str] = {}
        self.files: list[str] = []
        self.current_context_file = ""

    @property
    def current_context(self) -> str:
        return str(self.tree["current-context"])

    @classmethod
    def load(cls, explicit: str = "", environment: Mapping[str, str] | None = None) -> Kubeconfig:
        """The explicit file, or those of $KUBECONFIG, or ``~/.kube/config``; of the latter, files may be missing.

        Raises ConfigError.
        """
        made = cls()
        if explicit:
            made.add_file(explicit, must_exist=True)
            return made
        for path in default_files(environment):
            made.add_file(path)
        return made

    def add_file(self, path: str, *, must_exist: bool = False) -> None:
        try:
            data = Path(path).read_bytes()
        except FileNotFoundError:
            if must_exist:
                raise ConfigError(f"stat {path}: no such file or directory") from None
            return
        except OSError as error:
            raise ConfigError(f'error loading config file "{path}": {error.strerror}', file=path) from None
        self.files.append(path)
        self.add(data, path)

    def add(self, data: bytes, path: str) -> None:
        """A file's content."""
        try:
            tree, _ = yaml_reading.loads(data) if data.strip() else ({}, [])
        except ValueError as error:
            raise ConfigError(f"error loading config file: {error}", file=path) from None
        if tree is None:
            tree = {}
        if not isinstance(tree, dict):
            raise ConfigError("error loading config file: no mapping", file=path)
        for plural, singular in _LISTS:
            items = tree.get(plural) or []
            if not isinstance(items, list):
                raise ConfigError("must be a list", file=path, field=plural)
            for index, item in enumerate(items):
                inner = item.get(singular) if isinstance(item, dict) else None
                if not isinstance(item, dict) or not isinstance(inner, dict | None):
                    raise ConfigError("must be a mapping", file=path, field=f"{plural}[{index}]")
                name = str(item.get("name") or "")
                _check_types(inner or {}, f"{plural}[{name}]", path)
                if name not in self.entries[plural]:
                    self.entries[plural][name] = dict(inner or {})
                    self.origin[plural, name] = path
        current = tree.get("current-context")
        if current and not self.tree["current-context"]:
            self.tree["current-context"] = str(current)
            self.current_context_file = path

    @property
    def is_empty(self) -> bool:
        return not any(self.entries.values())

    def config(self, reactor: Reactor | None = None, overrides: Overrides | None = None, **more: object) -> Config:
        """Of the current context, or the one of ``overrides``.  ``more`` are fields of Config.  Raises ConfigError."""
        over = overrides or Overrides()
        context_name = over.context or self.current_context
        context: Object = {}
        if context_name:
            if context_name not in self.entries["contexts"]:
                if over.context or not self.is_empty:
                    raise ConfigError(
                        f"context was not found for specified context: {context_name}", field="current-context"
                    )
            else:
                context = self.entries["contexts"][context_name]
        context_file = self.origin.get(("contexts", context_name), "")
        cluster_name, user_name = over.cluster or context.get("cluster") or "", over.user or context.get("user") or ""
        if over.cluster and over.cluster not in self.entries["clusters"]:
            raise ConfigError(f'no server found for cluster "{over.cluster}"')
        cluster = self._entry("clusters", "cluster", cluster_name, context_file, context_name)
        user = self._entry("users", "auth info", user_name, context_file, context_name)
        cluster_file = self.origin.get(("clusters", cluster_name), "")
        user_file = self.origin.get(("users", user_name), "")
        fields: Object = {"namespace": over.namespace or context.get("namespace") or "default"}
        fields |= self._server(cluster, cluster_file, over)
        fields |= self._identity(user, user_name, user_file, over, cluster, reactor)
        if over.timeout:
            fields["timeout"] = over.timeout
        try:
            return Config(**(fields | more))
        except ConfigError as error:
            names = {"host": "server", "ca": "certificate-authority", "proxy_url": "proxy-url"}
            where = user_file if error.field in ("certificate", "key") else cluster_file
            raise ConfigError(error.why, file=where, field=names.get(error.field, error.field)) from None

    def _entry(self, plural: str, what: str, name: str, file: str, context: str) -> Object:
        if not name:
            return {}
        found = self.entries[plural].get(name)
        if found is None:
            raise ConfigError(f'{what} "{name}" does not exist', file=file, field=f"contexts[{context}]")
        return found

    def _server(self, cluster: Object, file: str, over: Overrides) -> Object:
        base = Path(file).resolve().parent if file else Path()
        server = over.server or cluster.get("server") or "http://localhost:8080"
        if "://" not in server:
            server = "http://" + server  # as client-go reads it
        insecure = over.insecure or bool(cluster.get("insecure-skip-tls-verify"))
        if over.certificate_authority:
            ca = _content(Path(), over.certificate_authority, "certificate-authority", "")
        else:
            ca = b"" if over.insecure else _pem(cluster, "certificate-authority", base, file)
        return {
            "host": server,
            "ca": ca,
            "insecure": insecure,
            "server_name": over.tls_server_name or cluster.get("tls-server-name") or "",
            "proxy_url": over.proxy_url or cluster.get("proxy-url") or "",
        }

    def _identity(
        self, user: Object, name: str, file: str, over: Overrides, cluster: Object, reactor: Reactor | None
    ) -> Object:
        base = Path(file).resolve().parent if file else Path()
        certificate, key = _pem(user, "client-certificate", base, file), _pem(user, "client-key", base, file)
        if over.client_certificate or over.client_key:
            certificate = _content(Path(), over.client_certificate, "client-certificate", "")
            key = _content(Path(), over.client_key, "client-key", "")
        extra = over.as_extra or user.get("as-user-extra") or {}
        impersonate = Impersonation(
            user=over.as_user or str(user.get("as") or ""),
            uid=over.as_uid or str(user.get("as-uid") or ""),
            groups=tuple(over.as_groups or user.get("as-groups") or ()),
            extra={key: tuple(values) for key, values in extra.items()},
        )
        if not impersonate.user and (impersonate.uid or impersonate.groups or impersonate.extra):
            why = f"requesting uid, groups or user-extra for {name} without impersonating a user"
            raise ConfigError(why, file=file, field=f"users[{name}]")
        credentials = self._credentials(user, name, file, over, cluster, reactor)
        return {"certificate": certificate, "key": key, "credentials": credentials, "impersonate": impersonate}

    def _credentials(
        self, user: Object, name: str, file: str, over: Overrides, cluster: Object, reactor: Reactor | None
    ) -> Authenticator:
        token, token_file = over.token or user.get("token") or "", user.get("tokenFile") or ""
        username, password = over.username or user.get("username"), over.password or user.get("password")
        if token and (username or password):
            why = f"more than one authentication method found for {name}; found [token basicAuth], only one is allowed"
            raise ConfigError(why, file=file, field=f"users[{name}]")
        if token_file and not over.token:
            base = Path(file).resolve().parent if file else Path()
            _content(base, token_file, "tokenFile", file)
            return TokenFile(str(base / token_file))
        if token:
            return bearer(str(token))
        if username:
            return basic(str(username), str(password or ""))
        if user.get("exec"):
            return _exec(user["exec"], name, file, cluster, reactor)
        if user.get("auth-provider"):
            raise ConfigError("no Auth Provider found for that name", file=file, field="auth-provider")
        return NO_CREDENTIALS


def _check_types(entry: Object, where: str, path: str) -> None:
    """Raises ConfigError, which does not quote the value: it may be a credential.  Unknown fields may hold anything."""
    for name, value in entry.items():
        wanted = _TYPES.get(name)
        if wanted is not None and value is not None and not isinstance(value, wanted):
            why = f"cannot unmarshal {_JSON_NAMES.get(type(value), 'value')} into a field of type {_JSON_NAMES[wanted]}"
            raise ConfigError(why, file=path, field=f"{where}.{name}")


def default_files(environment: Mapping[str, str] | None = None) -> list[str]:
    """Those of $KUBECONFIG, else ``~/.kube/config``."""
    given = os.environ if environment is None else environment
    named = [path for path in given.get("KUBECONFIG", "").split(os.pathsep) if path]
    return list(dict.fromkeys(named)) or [os.path.join(given.get("HOME") or os.path.expanduser("~"), ".kube", "config")]


def load_config(
    reactor: Reactor | None = None,
    *,
    kubeconfig: str = "",
    context: str = "",
    overrides: Overrides | None = None,
    environment: Mapping[str, str] | None = None,
    service_account: str = SERVICE_ACCOUNT,
    **more: object,
) -> Config:
    """The configuration of a program without one of its own: kubeconfig files, or in a Pod its ServiceAccount.

    Raises ConfigError.
    """
    files = Kubeconfig.load(kubeconfig, environment)
    over = overrides or Overrides()
    if context:
        over.context = context
    given = os.environ if environment is None else environment
    if files.is_empty and not kubeconfig and not over.server and given.get("KUBERNETES_SERVICE_HOST"):
        return in_cluster_config(given, service_account, **more)
    return files.config(reactor, over, **more)


def _exec(plugin: Object, user: str, file: str, cluster: Object, reactor: Reactor | None) -> Authenticator:
    from kapi.client.exec_credential import ExecPlugin

    if not isinstance(plugin, dict) or not plugin.get("command"):
        raise ConfigError("exec plugin: command must be specified", file=file, field="exec.command")
    _check_interactive(plugin, user, file)
    command = str(plugin["command"])
    if os.sep in command and file:
        command = str(Path(file).resolve().parent / command)
    known = {key: value for key, value in cluster.items() if key not in ("certificate-authority", "extensions")}
    return ExecPlugin(
        reactor or installed_reactor(),
        command,
        [str(argument) for argument in plugin.get("args") or ()],
        {str(item["name"]): str(item.get("value") or "") for item in plugin.get("env") or ()},
        api_version=str(plugin.get("apiVersion") or ""),
        cluster=known if plugin.get("provideClusterInfo") else None,
        install_hint=str(plugin.get("installHint") or ""),
        file=file,
    )


def _check_interactive(plugin: Object, user: str, file: str) -> None:
    """Plugins get no standard input.  Raises ConfigError for one that needs it."""
    mode = plugin.get("interactiveMode") or ""
    if mode in ("Never", "IfAvailable") or not mode and not str(plugin.get("apiVersion") or "").endswith("/v1"):
        return
    why = {
        "": f"interactiveMode must be specified for {user} to use exec authentication plugin",
        "Always": "exec plugin cannot support interactive mode: it gets no standard input",
    }.get(mode, f'invalid interactiveMode for {user}: "{mode}"')
    raise ConfigError(why, file=file, field="exec.interactiveMode")


def _pem(source: Object, name: str, base: Path, path: str) -> bytes:
    data, file = source.get(f"{name}-data"), source.get(name)
    if data:
        try:
            return base64.b64decode(data, validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise ConfigError("illegal base64 data", file=path, field=f"{name}-data") from None
    return _content(base, file, name, path) if file else b""


def _content(base: Path, file: str, name: str, path: str) -> bytes:
    if not file:
        return b""
    try:
        return (base / file).read_bytes()
    except OSError as error:
        raise ConfigError(f"unable to read {base / file}: {error.strerror}", file=path, field=name) from None
