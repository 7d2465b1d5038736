"""kubeconfig files: merged, read, made into a Config (upstream: client-go ``tools/clientcmd``).

With several files, the first one that has an entry of a name, or a current context, counts.  As in client-go, ``tokenFile`` takes
precedence over ``token``.  ``kubeconfig_entries`` reads a single file.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kapi.client.config import Config, ConfigError, Impersonation, without_user
from kapi.client.config_error import ConfigErrors, DirectoryError
from kapi.client.credentials import NO_CREDENTIALS, Authenticator, TokenFile, basic, bearer
from kapi.client.incluster import SERVICE_ACCOUNT, in_cluster_config
from kapi.client.kubeconfig_entries import check_one_method, read_content, read_entries, read_pem
from kapi.client.rest_url import server_url
from kapi.machinery.golang import file_error, quote
from kapi.machinery.tree import Object
from kapi.process.reactor import Reactor, installed_reactor

if TYPE_CHECKING:  # few files name a plugin
    from kapi.client.exec_credential import PluginPolicy


@dataclass(slots=True)
class Overrides:
    """Values of the command line, which take precedence over the files."""

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
    plugin_policy: PluginPolicy | None = None


class Kubeconfig:
    """One or more files, merged: entries, with every entry's file in ``origin``.  ``more`` are other fields, such as preferences.

    ``sources`` are all files to read, ``files`` the existing ones.
    """

    def __init__(self, explicit: str = "", sources: Sequence[str] = ()) -> None:
        self.explicit, self.sources = explicit, list(sources) or [explicit]
        self.current_context = ""
        self.entries: dict[str, dict[str, Object]] = {"clusters": {}, "contexts": {}, "users": {}}
        self.more: Object = {}
        self.origin: dict[tuple[str, str], str] = {}
        self.files: list[str] = []

    @classmethod
    def load(
        cls, explicit: str = "", environment: Mapping[str, str] | None = None, *, must_exist: bool = True
    ) -> Kubeconfig:
        """Reads the explicit file, or the files of $KUBECONFIG, or ``~/.kube/config``.  Only the explicit file must exist.

        Raises ConfigError.
        """
        made = cls(explicit, [explicit] if explicit else default_files(environment))
        for path in made.sources:
            made.add_file(path, must_exist=bool(explicit) and must_exist)
        return made

    def add_file(self, path: str, *, must_exist: bool = False) -> None:
        try:
            data = Path(path).read_bytes()
        except FileNotFoundError:
            if must_exist:
                raise ConfigError(f"stat {path}: no such file or directory") from None
            return
        except OSError as error:
            raise ConfigError(f'error loading config file "{path}": {file_error(error)}', file=path) from None
        self.files.append(path)
        self.add(data, path)

    def add(self, data: bytes, path: str) -> None:
        """Merges the content of a file.  Raises ConfigError."""
        found = read_entries(data, path)
        for plural, entries in self.entries.items():
            for name, entry in getattr(found, plural).items():
                if name not in entries:
                    entries[name] = entry
                    self.origin[plural, name] = path
        self.more = found.more | self.more
        self.current_context = self.current_context or found.current_context

    @property
    def is_empty(self) -> bool:
        return not self.current_context and not any(self.entries.values())

    def config(self, reactor: Reactor | None = None, overrides: Overrides | None = None, **more: object) -> Config:
        """The Config of the current context, or of the context in ``overrides``, with fields ``more``.  Raises ConfigError."""
        over = overrides or Overrides()
        context_name = over.context or self.current_context
        context: Object = {}
        if context_name:
            if context_name not in self.entries["contexts"]:
                raise ConfigError(
                    f"context was not found for specified context: {context_name}", field="current-context"
                )
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
        unread: list[ConfigError] = []
        identity = self._identity(user, user_name, user_file, over, cluster, reactor, unread)
        fields |= self._server(cluster, cluster_name, cluster_file, over, unread)
        if unopened := [error for error in unread if not isinstance(error, DirectoryError)]:
            raise unopened[0] if len(unopened) == 1 else ConfigErrors(unopened)
        if unread:
            raise min(unread, key=lambda error: error.field)  # the order of client-go: authority, certificate, key
        try:
            fields["host"] = server_url(fields["host"], tls=False)  # as in client-go, also with a certificate
        except ValueError as error:
            raise ConfigError(str(error), file=cluster_file, field="server") from None
        if not fields["host"].startswith("https:"):  # credentials are only sent encrypted, as in client-go
            identity = {"impersonate": identity["impersonate"]}
        fields |= identity
        if over.timeout:
            fields["timeout"] = over.timeout
        try:
            return Config(**(fields | more))
        except ConfigError as error:
            names = {"host": "server", "ca": "certificate-authority", "proxy_url": "proxy-url"}
            where = user_file if error.field in ("certificate", "key") else cluster_file
            why = error.why
            if error.field == "proxy_url":
                shown = quote(without_user(fields["proxy_url"]))
                why = f"invalid 'proxy-url' {shown} for cluster {quote(cluster_name)}: {why}"
            elif error.field == "host":
                why = f"host must be a URL or a host:port pair: {quote(without_user(fields['host']))}"
            raise ConfigError(why, file=where, field=names.get(error.field, error.field)) from None

    def _entry(self, plural: str, what: str, name: str, file: str, context: str) -> Object:
        if not name:
            return {}
        found = self.entries[plural].get(name)
        if found is None:
            raise ConfigError(f'{what} "{name}" does not exist', file=file, field=f"contexts[{context}]")
        return found

    def _server(self, cluster: Object, name: str, file: str, over: Overrides, unread: list[ConfigError]) -> Object:
        base = Path(file).resolve().parent if file else Path()
        insecure = over.insecure or bool(cluster.get("insecure-skip-tls-verify"))
        ca = b""
        with _collected(unread):
            if over.certificate_authority:
                ca = _given(over.certificate_authority, "certificate-authority", name)
            elif not over.insecure:
                ca = read_pem(cluster, "certificate-authority", base, file, name)
        return {
            "host": over.server or cluster.get("server") or "http://localhost:8080",
            "ca": ca,
            "insecure": insecure,
            "server_name": over.tls_server_name or cluster.get("tls-server-name") or "",
            "proxy_url": over.proxy_url or cluster.get("proxy-url") or "",
        }

    def _identity(
        self, user: Object, name: str, file: str, over: Overrides, cluster: Object, reactor: Reactor | None,
        unread: list[ConfigError],
    ) -> Object:  # fmt: skip
        base = Path(file).resolve().parent if file else Path()
        files = {"client-certificate": over.client_certificate, "client-key": over.client_key}
        pair = dict.fromkeys(files, b"")
        for part, given in files.items():
            with _collected(unread):
                if any(files.values()):
                    pair[part] = _given(given, part, name)
                else:
                    pair[part] = read_pem(user, part, base, file, name)
        certificate, key = pair.values()
        if certificate and not key and not unread:
            why = f"client-key-data or client-key must be specified for {name} to use the clientCert authentication method."
            raise ConfigError(why, file=file, field=f"users[{name}]")
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
        check_one_method(name, token, username or "", password or "", file)
        if token_file and not over.token:
            base = Path(file).resolve().parent if file else Path()
            read_content(base, token_file, "tokenFile", file, name)
            return TokenFile(str(base / token_file))
        if token:
            return bearer(str(token))
        if username:
            return basic(str(username), str(password or ""))
        if user.get("exec"):
            return _exec(user["exec"], name, file, cluster, reactor, over.plugin_policy)
        if user.get("auth-provider"):
            raise ConfigError("no Auth Provider found for that name", file=file, field="auth-provider")
        return NO_CREDENTIALS


def default_files(environment: Mapping[str, str] | None = None) -> list[str]:
    """The files of $KUBECONFIG, or ``~/.kube/config``."""
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
    """The configuration from kubeconfig files, or from the Pod's ServiceAccount when there are none.

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


def _exec(
    plugin: Object, user: str, file: str, cluster: Object, reactor: Reactor | None, policy: PluginPolicy | None
) -> Authenticator:
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
        policy=policy,
    )


def _check_interactive(plugin: Object, user: str, file: str) -> None:
    """Raises ConfigError for a plugin that needs standard input, which plugins do not get."""
    mode = plugin.get("interactiveMode") or ""
    if mode in ("Never", "IfAvailable") or not mode and not str(plugin.get("apiVersion") or "").endswith("/v1"):
        return
    why = {
        "": f"interactiveMode must be specified for {user} to use exec authentication plugin",
        "Always": "exec plugin cannot support interactive mode: it gets no standard input",
    }.get(mode, f'invalid interactiveMode for {user}: "{mode}"')
    raise ConfigError(why, file=file, field="exec.interactiveMode")


@contextlib.contextmanager
def _collected(errors: list[ConfigError]) -> Iterator[None]:
    """Keeps an error, so that the files that follow are read, too."""
    try:
        yield
    except ConfigError as error:
        errors.append(error)


def _given(file: str, name: str, owner: str) -> bytes:
    """The content of a file that a flag names.  Raises ConfigError."""
    return read_content(Path(), file, name, "", owner) if file else b""
