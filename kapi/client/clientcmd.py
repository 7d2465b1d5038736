"""kubeconfig files: merged, read, made into a Config (upstream: client-go ``tools/clientcmd``).

With several files, the first one that has an entry of a name, or a current context, counts.  As in client-go, ``tokenFile`` takes
precedence over ``token``.  ``kubeconfig_entries`` reads a single file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from kapi.client.config import Config, ConfigError, Impersonation, proxy_problem, without_user
from kapi.client.config_error import ConfigErrors, InvalidConfig, LoadErrors, NoConnection
from kapi.client.credentials import NO_CREDENTIALS, Authenticator, TokenFile, basic, bearer
from kapi.client.incluster import SERVICE_ACCOUNT, in_cluster_config
from kapi.client.kubeconfig_entries import check_one_method, read_content, read_entries, read_pem, unread
from kapi.client.rest_url import NoServer, server_url
from kapi.machinery.golang import file_error, quote
from kapi.machinery.tree import Object
from kapi.process.reactor import Reactor, installed_reactor

if TYPE_CHECKING:  # few files name a plugin
    from kapi.client.exec_credential import PluginPolicy

DEFAULT_SERVER = "http://localhost:8080"
_PATHS = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
_NEWS = "https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins"
#: what is said of ways to get credentials that client-go had
_REMOVED = {
    "azure": "The azure auth plugin has been removed.\n"
    "Please use the https://github.com/Azure/kubelogin kubectl/client-go credential plugin instead.\n"
    f"See {_NEWS} for further details",
    "gcp": "The gcp auth plugin has been removed.\n"
    'Please use the "gke-gcloud-auth-plugin" kubectl/client-go credential plugin instead.\n'
    "See https://cloud.google.com/blog/products/containers-kubernetes/kubectl-auth-changes-in-gke for further details",
}


class Overrides(NamedTuple):
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
    as_extra: Mapping[str, Sequence[str]] = MappingProxyType({})
    username: str = ""
    password: str = ""
    proxy_url: str = ""
    timeout: float = 0.0
    plugin_policy: PluginPolicy | None = None
    stdin_use: str = ""  # what reads standard input, which plugins then do not get


class _Chosen(NamedTuple):
    """What a command uses of kubeconfig files, together with its flags; names and files are for errors."""

    namespace: str
    cluster: Object
    cluster_name: str
    cluster_file: str
    user: Object
    user_name: str
    user_file: str


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
        errors: list[ConfigError] = []
        for path in made.sources:
            try:
                made.add_file(path, must_exist=bool(explicit) and must_exist)
            except ConfigError as error:
                errors.append(error)
        if errors:
            raise errors[0] if len(errors) == 1 else LoadErrors(errors)
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
        self.more = found.more | {name: value for name, value in self.more.items() if value}
        self.current_context = self.current_context or found.current_context

    @property
    def is_empty(self) -> bool:
        return not self.current_context and not any(self.entries.values())

    def namespace(self, overrides: Overrides) -> str:
        """That of the context.  Raises InvalidConfig where context, cluster and user cannot be used."""
        return overrides.namespace or self._confirmed(overrides).namespace

    def _confirmed(self, over: Overrides) -> _Chosen:
        """Raises InvalidConfig (upstream: ``ConfirmUsable``)."""
        context_name = over.context or self.current_context
        context = self.entries["contexts"].get(context_name) or {}
        cluster_name, user_name = over.cluster or context.get("cluster") or "", over.user or context.get("user") or ""
        cluster = _cluster(self._located("clusters", cluster_name), over)
        user = _user(self._located("users", user_name), over)
        cluster_file = self.origin.get(("clusters", cluster_name), "")
        user_file = self.origin.get(("users", user_name), "")
        errors: list[ConfigError] = []
        if context_name and context_name not in self.entries["contexts"]:
            why = f"context was not found for specified context: {context_name}"
            errors.append(InvalidConfig(why, field="current-context"))
        problems = (
            (user_file, _user_problems(user, user_name)),
            (cluster_file, _cluster_problems(cluster, cluster_name)),
        )
        errors += [InvalidConfig(why, file=file, field=place) for file, found in problems for place, why in found]
        if over.cluster and over.cluster not in self.entries["clusters"]:
            errors.append(InvalidConfig(f"no server found for cluster {quote(over.cluster)}", field="server"))
        if errors:
            raise errors[0] if len(errors) == 1 else ConfigErrors(errors)
        namespace = over.namespace or context.get("namespace") or "default"
        return _Chosen(namespace, cluster, cluster_name, cluster_file, user, user_name, user_file)

    def config(self, reactor: Reactor | None = None, overrides: Overrides | None = None, **more: object) -> Config:
        """The Config of the current context, or of the context in ``overrides``, with fields ``more``.  Raises ConfigError."""
        over = overrides or Overrides()
        for plural, what, name in (
            ("users", "auth info", over.user),
            ("contexts", "context", over.context),
            ("clusters", "cluster", over.cluster),
        ):
            if name and name not in self.entries[plural]:
                raise ConfigError(f'{what} "{name}" does not exist')
        namespace, cluster, cluster_name, cluster_file, user, user_name, user_file = self._confirmed(over)
        fields: Object = {
            "namespace": namespace,
            "proxy_url": cluster.get("proxy-url") or "",
            "impersonate": Impersonation(
                user=user.get("as") or "",
                uid=user.get("as-uid") or "",
                groups=tuple(user.get("as-groups") or ()),
                extra={key: tuple(values) for key, values in (user.get("as-user-extra") or {}).items()},
            ),
        }
        try:
            fields["host"] = server_url(cluster.get("server") or DEFAULT_SERVER, tls=False)  # also with a certificate
        except ValueError as error:
            kind = NoConnection if isinstance(error, NoServer) else ConfigError
            raise kind(str(error), file=cluster_file, field="server") from None
        if fields["host"].startswith("https:"):  # credentials are only sent encrypted, as in client-go
            fields["credentials"] = _credentials(user, user_name, user_file, cluster, reactor, over)
            fields["insecure"] = bool(cluster.get("insecure-skip-tls-verify"))
            fields["server_name"] = cluster.get("tls-server-name") or ""
            fields["ca"] = read_pem(cluster, "certificate-authority", Path(), cluster_file, cluster_name)
            fields["certificate"] = read_pem(user, "client-certificate", Path(), user_file, user_name)
            if fields["certificate"]:
                fields["key"] = read_pem(user, "client-key", Path(), user_file, user_name)
        if over.timeout:
            fields["timeout"] = over.timeout
        try:
            return Config(**(fields | more))
        except ConfigError as error:
            names = {"host": "server", "ca": "certificate-authority"}
            where = user_file if error.field in ("certificate", "key") else cluster_file
            raise ConfigError(error.why, file=where, field=names.get(error.field, error.field)) from None

    def _located(self, plural: str, name: str) -> Object:
        """The entry of a name, or {}; its paths relative to its file are absolute."""
        entry = dict(self.entries[plural].get(name) or {})
        base = Path(self.origin.get((plural, name), "")).resolve().parent
        for path in _PATHS:
            if entry.get(path):
                entry[path] = str(base / entry[path])
        plugin = entry.get("exec")
        if plugin and os.sep in (plugin.get("command") or ""):
            entry["exec"] = {**plugin, "command": str(base / plugin["command"])}
        return entry


def _cluster(cluster: Object, over: Overrides) -> Object:
    """The entry of a cluster with what the command line says."""
    given = {"server": over.server, "proxy-url": over.proxy_url}
    found = cluster | {field: value for field, value in given.items() if value}
    if over.insecure or over.certificate_authority:
        found["insecure-skip-tls-verify"] = over.insecure
        found["certificate-authority"], found["certificate-authority-data"] = over.certificate_authority, ""
    if over.tls_server_name or over.server:
        found["tls-server-name"] = over.tls_server_name
    return found


def _user(user: Object, over: Overrides) -> Object:
    """The entry of a user with what the command line says."""
    given = {
        "token": over.token,
        "username": over.username,
        "password": over.password,
        "as": over.as_user,
        "as-uid": over.as_uid,
        "as-groups": over.as_groups,
        "as-user-extra": over.as_extra,
    }
    found = user | {field: value for field, value in given.items() if value}
    for name, path in (("client-certificate", over.client_certificate), ("client-key", over.client_key)):
        if path:
            found[name], found[f"{name}-data"] = path, ""
    return found


def _cluster_problems(cluster: Object, name: str) -> Iterator[tuple[str, str]]:
    """Fields, and what is wrong with them (upstream: ``validateClusterInfo``)."""
    if proxy := cluster.get("proxy-url"):
        if why := proxy_problem(proxy):
            shown = quote(without_user(proxy))
            yield "proxy-url", f"invalid 'proxy-url' {shown} for cluster {quote(name)}: {why}"
    authority = cluster.get("certificate-authority")
    if authority and cluster.get("certificate-authority-data"):
        both = "certificate-authority-data and certificate-authority are both specified for"
        yield "certificate-authority", f"{both} {name}. certificate-authority-data will override."
    yield from _unreadable("certificate-authority", authority, name)


def _user_problems(user: Object, name: str) -> Iterator[tuple[str, str]]:
    """Fields, and what is wrong with them (upstream: ``validateAuthInfo``)."""
    where = f"users[{name}]"
    paths = [user.get(field) for field in ("client-certificate", "client-key")]
    contents = [user.get(f"{field}-data") for field in ("client-certificate", "client-key")]
    if paths[0] or contents[0]:
        if paths[0] and contents[0]:
            yield (
                where,
                f"client-cert-data and client-cert are both specified for {name}. client-cert-data will override.",
            )
        if paths[1] and contents[1]:
            yield where, f"client-key-data and client-key are both specified for {name}; client-key-data will override"
        if not paths[1] and not contents[1]:
            what = "client-key-data or client-key must be specified"
            yield where, f"{what} for {name} to use the clientCert authentication method."
        yield from _unreadable("client-certificate", paths[0], name)
        yield from _unreadable("client-key", paths[1], name)
    if user.get("exec"):
        yield from _plugin_problems(user, name)
    try:
        check_one_method(name, user.get("token") or "", user.get("username") or "", user.get("password") or "", "")
    except ConfigError as error:
        yield where, error.why
    if not user.get("as") and any(user.get(field) for field in ("as-uid", "as-groups", "as-user-extra")):
        yield where, f"requesting uid, groups or user-extra for {name} without impersonating a user"


def _plugin_problems(user: Object, name: str) -> Iterator[tuple[str, str]]:
    plugin, use = user["exec"], f"must be specified for {name} to use exec authentication plugin"
    if user.get("auth-provider"):
        yield "auth-provider", f"authProvider cannot be provided in combination with an exec plugin for {name}"
    for part in ("command", "apiVersion"):
        if not plugin.get(part):
            yield f"exec.{part}", f"{part} {use}"
    for item in plugin.get("env") or ():
        if not (item or {}).get("name"):
            yield "exec.env", f"env variable name {use}"
    mode = plugin.get("interactiveMode") or ""
    if not mode:
        yield "exec.interactiveMode", f"interactiveMode {use}"
    elif mode not in ("Never", "IfAvailable", "Always"):
        yield "exec.interactiveMode", f"invalid interactiveMode for {name}: {quote(mode)}"


def _unreadable(field: str, path: str | None, owner: str) -> Iterator[tuple[str, str]]:
    """A file that cannot be opened; a directory can be."""
    if path:
        try:
            os.close(os.open(path, os.O_RDONLY))
        except OSError as error:
            yield field, unread(field, Path(path), owner, error)


def _credentials(
    user: Object, name: str, file: str, cluster: Object, reactor: Reactor | None, over: Overrides
) -> Authenticator:
    if user.get("tokenFile") and not over.token:
        read_content(Path(), user["tokenFile"], "tokenFile", file, name)
        return TokenFile(user["tokenFile"])
    if user.get("token"):
        return bearer(user["token"])
    if user.get("username"):
        return basic(user["username"], user.get("password") or "")
    with_certificate = user.get("client-certificate") or user.get("client-certificate-data")
    if user.get("exec") and not with_certificate:
        return _exec(user["exec"], file, cluster, reactor, over)
    if user.get("auth-provider") is not None:
        provider = user["auth-provider"].get("name") or ""
        why = _REMOVED.get(provider) or f"no Auth Provider found for name {quote(provider)}"
        raise ConfigError(why, file=file, field="auth-provider")
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
        over = over._replace(context=context)
    given = os.environ if environment is None else environment
    if files.is_empty and not kubeconfig and not over.server and given.get("KUBERNETES_SERVICE_HOST"):
        return in_cluster_config(given, service_account, **more)
    return files.config(reactor, over, **more)


def _exec(plugin: Object, file: str, cluster: Object, reactor: Reactor | None, over: Overrides) -> Authenticator:
    from kapi.client.exec_credential import ExecPlugin

    known = {key: value for key, value in cluster.items() if key not in ("certificate-authority", "extensions")}
    return ExecPlugin(
        reactor or installed_reactor(),
        os.path.normpath(plugin["command"]),
        plugin.get("args") or (),
        {item["name"]: item.get("value") or "" for item in plugin.get("env") or ()},
        api_version=plugin["apiVersion"],
        cluster=known if plugin.get("provideClusterInfo") else None,
        install_hint=plugin.get("installHint") or "",
        file=file,
        policy=over.plugin_policy,
        interactive=plugin["interactiveMode"],
        stdin_use=over.stdin_use,
    )
