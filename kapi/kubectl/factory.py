"""Streams, configuration and clients for a command, made from its flags (upstream: kubectl ``cmd/util`` Factory)."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from kapi.client.clientcmd import Kubeconfig, Overrides
from kapi.client.config import Config
from kapi.client.credentials import NO_CREDENTIALS, basic
from kapi.client.errors import ConnectionFailed
from kapi.kubectl.flags import Flags
from kapi.kubectl.messages import CommandError, inner_text
from kapi.machinery.golang import duration_text, parse_duration
from kapi.machinery.status import StatusError, without_status
from kapi.machinery.tree import Object
from kapi.process.reactor import Reactor, installed_reactor

if TYPE_CHECKING:  # not every command needs discovery or a server
    from kapi.client.discovery_cache import CachedDiscovery
    from kapi.client.exec_credential import PluginPolicy
    from kapi.client.mapper import RESTMapper
    from kapi.client.rest import RESTClient
    from kapi.client.session import Session

_DISCOVERY_SECONDS = 32  # the time limit of client-go's discovery, where none is given
QPS, BURST = 50.0, 300  # kubectl's
USER_AGENT = (
    "kubectl/kapi"  # the server names managers of fields after its first part, where a request does not name one
)
_GO_PROFILES = ("cpu", "heap", "goroutine", "threadcreate", "block", "mutex", "trace")
ANSWER_LEVEL = 6  # of -v, from which on requests are shown
SERVER_KUBECONFIG = ".kapi/admin.kubeconfig"  # the kubeconfig that a server writes in its working directory


class Factory:
    """``command`` is the command's name; ``out``, ``err`` and ``stdin`` are by default the streams of the process."""

    def __init__(
        self,
        command: str,
        flags: Flags,
        reactor: Reactor | None,
        out: TextIO | None = None,
        err: TextIO | None = None,
        stdin: TextIO | None = None,
        plugin_policy: PluginPolicy | None = None,
    ) -> None:
        self._plugin_policy = plugin_policy
        self.command, self.flags, self._reactor = command, flags, reactor
        self.out, self.err, self.stdin = out or sys.stdout, err or sys.stderr, stdin or sys.stdin
        self._files: Kubeconfig | None = None
        self._config: Config | None = None
        self._identified = False  # whether the configuration says who the user is, or the user was asked
        self._session: Session | None = None
        self._mapper: RESTMapper | None = None
        self._warned: set[str] = set()
        self.file_errors: list[BaseException] = []  # of the flags that name files
        self.kustomization = ""  # a directory
        self._built = ""  # the file of a kustomization's manifests

    @property
    def reactor(self) -> Reactor:
        if self._reactor is None:
            self._reactor = installed_reactor()
        return self._reactor

    def kubeconfig(self, *, must_exist: bool = True) -> Kubeconfig:
        return Kubeconfig.load(self.flags.get_string("kubeconfig"), must_exist=must_exist)

    @property
    def config(self) -> Config:
        """The configuration of the flags and kubeconfig files; asks for a user where they have none, as kubectl does.

        Raises ConfigError and CommandError.
        """
        config = self._config_of_files()
        if not self._identified:
            anonymous = config.credentials is NO_CREDENTIALS and not config.certificate
            if anonymous and config.host.startswith("https:"):
                name, password = self._prompt()
                config = self._config = config.replace(
                    credentials=basic(name, self.flags.get_string("password") or password)
                )
            self._identified = True
        return config

    def _config_of_files(self) -> Config:
        if self._config is None:
            config, timeout = self._load(self._overrides), _timeout(self.flags.get_string("request-timeout"))
            self._config = config.replace(qps=QPS, burst=BURST, user_agent=USER_AGENT, timeout=timeout)
        return self._config

    @property
    def _overrides(self) -> Overrides:
        flags = self.flags
        given = flags["filename"] if flags.has("filename") else []
        files = given if isinstance(given, list) else [given]  # snapshot takes one
        return Overrides(
            context=flags.get_string("context"),
            cluster=flags.get_string("cluster"),
            user=flags.get_global("user"),
            namespace=flags.get_string("namespace"),
            server=flags.get_string("server"),
            token=flags.get_string("token"),
            tls_server_name=flags.get_string("tls-server-name"),
            insecure=flags.get_bool("insecure-skip-tls-verify"),
            certificate_authority=flags.get_string("certificate-authority"),
            client_certificate=flags.get_string("client-certificate"),
            client_key=flags.get_string("client-key"),
            as_user=flags.get_string("as"),
            as_groups=flags.get_list("as-group"),
            as_uid=flags.get_string("as-uid"),
            as_extra=_extra(flags.get_list("as-user-extra")),
            username=flags.get_string("username"),
            password=flags.get_string("password"),
            proxy_url=flags.get_string("proxy-url"),
            plugin_policy=self._plugin_policy,
            stdin_use="used by stdin resource manifest reader" if "-" in (*files, *flags.arguments) else "",
        )

    def _prompt(self) -> tuple[str, str]:
        """Asks for the name and the password of a user (upstream: clientcmd's PromptingAuthLoader).  Raises CommandError.

        Of standard input no more is read than the name, which ends with white space, and the line of the password.
        """
        self._ask("Username")
        word = ""
        while (letter := self.stdin.read(1)) and not (word and letter.isspace()):
            word += letter.strip()
        if not word:
            raise CommandError("EOF")
        self._ask("Password")
        if not self.stdin.isatty():
            raise CommandError("error reading input for Password")
        import termios

        terminal = self.stdin.fileno()
        before = termios.tcgetattr(terminal)
        silent = [*before[:3], before[3] & ~termios.ECHO, *before[4:]]
        termios.tcsetattr(terminal, termios.TCSADRAIN, silent)
        try:
            return word, self.stdin.readline().rstrip("\r\n")
        finally:
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)

    def _ask(self, field: str) -> None:
        self.out.write(f"Please enter {field}: ")
        self.out.flush()

    def check_config(self) -> None:
        """Raises ConfigError and CommandError if there is no usable configuration."""
        _ = self.config  # not in an assert, which -O leaves out

    def use(self, config: Config) -> None:
        """Replaces the configuration of the flags; to be called before the first request."""
        self._config, self._identified = config, True

    def _load(self, overrides: Overrides) -> Config:
        if (files := self._used_files()) is not None:
            return files.config(self._reactor, overrides)
        from kapi.client.incluster import in_cluster_config

        config = in_cluster_config()
        return config.replace(namespace=overrides.namespace) if overrides.namespace else config

    def _used_files(self) -> Kubeconfig | None:
        """The kubeconfig files; None where the configuration is that of the Pod."""
        if self._files is None:
            files, server = self.kubeconfig(), self.flags.get_string("server")
            if files.is_empty and not server:
                if os.environ.get("KUBERNETES_SERVICE_HOST"):
                    return None
                if self._beside():
                    self.err.write(
                        f"Using {SERVER_KUBECONFIG}, that of the server in this directory: no other kubeconfig is there.\n"
                    )
                    files = Kubeconfig.load(SERVER_KUBECONFIG)
            self._files = files
        return self._files

    def _beside(self) -> bool:
        """Whether a server was started in this directory, and no kubeconfig is named."""
        named = self.flags.get_string("kubeconfig") or os.environ.get("KUBECONFIG")
        return not named and os.path.exists(SERVER_KUBECONFIG)

    @property
    def session(self) -> Session:
        if self._session is None:
            from kapi.client.session import Session

            level, transport = self.flags.get_int("v"), None
            if level >= ANSWER_LEVEL:
                from kapi.client.session import connect
                from kapi.kubectl.verbose import LoggedTransport

                transport = LoggedTransport(connect(self.config, self.reactor), self.config.host, level, self.err)
            self._session = Session.for_config(self.config, self.reactor, transport=transport, warnings=self._warn)
        return self._session

    def _warn(self, code: int, agent: str, text: str) -> None:
        """Prints each warning once."""
        if text not in self._warned:
            self._warned.add(text)
            self.err.write(f"Warning: {text}\n")

    @property
    def warned(self) -> int:
        return len(self._warned)

    @property
    def namespace(self) -> str:
        """That of the flags or the context.  Raises ConfigError where context, cluster and user cannot be used together."""
        if given := self.flags.get_string("namespace"):
            return given
        if self._config is None and (files := self._used_files()) is not None:
            return files.namespace(self._overrides)
        return self._config_of_files().namespace

    def check_namespace(self) -> None:
        """Raises ConfigError if there is none, as with a context that is not there."""
        _ = self.namespace

    @property
    def mapper(self) -> RESTMapper:
        if self._mapper is None:
            from kapi.client.mapper import RESTMapper

            self._mapper = RESTMapper(self.discovery(), lambda text: self.err.write(f"Warning: {text}\n"))
        return self._mapper

    def discovery(self) -> CachedDiscovery:
        """Discovery with a cache on disk, in kubectl's files."""
        from kapi.client.discovery import Discovery
        from kapi.client.discovery_cache import CachedDiscovery, cache_directory

        base = Path(self.flags.get_string("cache-dir")) if self.flags.get_string("cache-dir") else None
        return CachedDiscovery(Discovery(self.session), cache_directory(self.config.host, base))

    async def check_flags(self) -> None:
        """Checks flags of all commands.  Raises CommandError, ClientError and StatusError."""
        flags = self.flags
        if flags.given("kustomize") and self.command != "run":
            if flags.get_list("filename"):
                self.file_errors.append(CommandError("only one of -f or -k can be specified"))
            if flags.get_bool("recursive"):
                self.file_errors.append(CommandError("the -k flag can't be used with -f or -R"))
            self.kustomization = flags.get_string("kustomize")
            flags.set("filename", [self.kustomization])
        profile = flags.get_string("profile") if self.command != "debug" else "none"
        if profile in _GO_PROFILES:
            raise CommandError("profiles of Go are not written here; use python -m cProfile -m kapi ...")
        if profile != "none":
            raise CommandError(f"unknown profile '{profile}'")
        if flags.get_bool("match-server-version"):
            from kapi.machinery.version import VERSION

            served = await self.client().get().abs_path("/version").do()
            if served.get("gitVersion") != VERSION["gitVersion"]:
                mine, theirs = VERSION["gitVersion"], served.get("gitVersion")
                raise CommandError(f"server version ({theirs}) differs from client version ({mine})")

    def built(self) -> str:
        """The path of a file with the manifests of the kustomization.  Raises CommandError."""
        if not self._built:
            from kapi.kubectl.kustomization import built_file

            self._built = built_file(self.kustomization)
        return self._built

    def request_text(self, error: BaseException) -> str:
        """The text of an error of the server, or of a request to it, as part of another's."""
        if isinstance(error, ConnectionFailed) and self.config.timeout:  # which client-go sends with the request
            error.target += f"{'&' if '?' in error.target else '?'}timeout={duration_text(self.config.timeout)}"
        return inner_text(error, self.config.host)

    def discovery_text(self, error: BaseException, path: str = "") -> str:
        """The text of an error in reading what the server has, as part of another's.  ``path``: which request it shows."""
        if isinstance(error, ConnectionFailed):  # client-go sends its time limit with the request
            seconds = self.config.timeout or _DISCOVERY_SECONDS
            error.target = f"{path or error.target.partition('?')[0]}?timeout={duration_text(seconds)}"
        if isinstance(error, StatusError):  # kubectl does not look for a Status here
            return without_status(error.code, "GET", "unknown")[1]
        return inner_text(error, self.config.host)

    def source_name(self, path: str) -> str:
        """What messages call a file, or standard input."""
        if path == self._built:
            return self.kustomization
        return "STDIN" if path == "-" else path

    def client(self, group_version: str = "") -> RESTClient:
        from kapi.client.rest import RESTClient
        from kapi.client.session import base_path

        return RESTClient(self.session, base_path(group_version) if group_version else "")

    async def openapi(self, group: str, version: str) -> Object | None:
        """The OpenAPI v3 document of a group version, None when the server has none.  Raises StatusError and ClientError."""
        client = self.client()
        paths = (await client.get().abs_path("/openapi/v3").do()).get("paths") or {}
        place = paths.get(f"apis/{group}/{version}" if group else f"api/{version}")
        if place is None:
            return None
        found: Object = await client.get().abs_path(place["serverRelativeURL"]).do()
        return found

    async def close(self) -> None:
        if self._built:
            os.remove(self._built)
        if self._session is not None:
            await self._session.close()


def _extra(pairs: list[str]) -> dict[str, list[str]]:
    """The values of ``--as-user-extra KEY=VALUE``, by key; as kubectl, it leaves out what has no value."""
    found: dict[str, list[str]] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if equals:
            found.setdefault(key, []).append(value)
    return found


def _timeout(text: str) -> float:
    """The seconds of ``--request-timeout``, which is a duration or a number of seconds; 0 is none."""
    if not text or text.isdecimal():
        return float(text or 0)
    try:
        return max(0.0, parse_duration(text))
    except ValueError:
        raise CommandError(
            "Invalid timeout value. Timeout must be a single integer in seconds, "
            "or an integer followed by a corresponding time unit (e.g. 1s | 2m | 3h)"
        ) from None
