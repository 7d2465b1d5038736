"""The egress selector flag, and the file that it names (upstream: apiserver ``server/egressselector/config.go``)."""

from __future__ import annotations

from urllib.parse import urlsplit

import msgspec

from kapi.machinery.tree import Object, Tree
from kapi.options.errors import ConfigError, read_yaml
from kapi.options.flags import FlagSet, string, value

_FLAG = "--egress-selector-config-file"
_VERSION = "apiserver.k8s.io/v1beta1"
_NAMES = ("cluster", "controlplane", "etcd")
_PROTOCOLS = ("Direct", "HTTPConnect", "GRPC")
_TLS = {"caBundle", "clientKey", "clientCert", "tlsServerName"}


class Selection(msgspec.Struct, frozen=True):
    """A network that is reached through a proxy at a unix socket or a URL; the files are for TLS with an https URL.

    ``is_grpc``: the proxy speaks konnectivity's protocol, instead of HTTP's CONNECT.
    """

    name: str
    is_grpc: bool = False
    socket: str = ""
    url: str = ""
    ca: str = ""
    certificate: str = ""
    key: str = ""
    server_name: str = ""


class EgressOptions(FlagSet):
    title = "Egress selector"

    egress_selector_config_file = value(
        string,
        "",
        "EgressSelectorConfiguration file: proxies on the way to the cluster, to the control plane and (etcd) to the store.",
    )

    def selections(self) -> list[Selection]:
        """The networks with a proxy.  Raises ConfigError."""
        if not self.egress_selector_config_file:
            return []
        tree = read_yaml(self.egress_selector_config_file, "egress-selector-config-file")
        kind = (tree.get("apiVersion"), tree.get("kind")) if isinstance(tree, dict) else ()
        if kind != (_VERSION, "EgressSelectorConfiguration"):
            raise ConfigError(f'{_FLAG}: want kind EgressSelectorConfiguration of "{_VERSION}"')
        reader = _Reader()
        found = reader.read(tree)
        if reader.errors:
            raise ConfigError(*(f"{_FLAG}: {error}" for error in reader.errors))
        return found


class _Reader:
    """Reads the configuration and collects its errors."""

    def __init__(self) -> None:
        self.errors: list[str] = []

    def read(self, tree: Tree) -> list[Selection]:
        self._object("", tree, {"apiVersion", "kind", "egressSelections"})
        entries = tree.get("egressSelections")
        if not isinstance(entries, list):
            self.errors.append("egressSelections: must be a list")
            return []
        found: list[Selection] = []
        seen: set[str] = set()
        for position, entry in enumerate(entries):
            at = f"egressSelections[{position}]"
            given = self._object(at, entry, {"name", "connection"})
            name = str(given.get("name") or "").lower()
            if name in seen:
                self.errors.append(f'{at}: Duplicate value: "{name}"')
            elif name not in _NAMES:
                self.errors.append(f'{at}: Unsupported value: "{name}": supported values: {_listed(_NAMES)}')
            seen.add(name)
            connection = self._object(f"{at}.connection", given.get("connection"), {"proxyProtocol", "transport"})
            selection = self._connection(f"{at}.connection", name, connection)
            if selection is not None:
                found.append(selection)
        return found

    def _object(self, at: str, value: object, known: set[str]) -> Object:
        if not isinstance(value, dict):
            self.errors.append(f"{at}: must be an object")
            return {}
        for name in sorted(map(str, value.keys() - known)):
            self.errors.append(f'strict decoding error: unknown field "{at}{"." if at else ""}{name}"')
        return value

    def _connection(self, at: str, name: str, connection: Object) -> Selection | None:
        protocol, transport = connection.get("proxyProtocol"), connection.get("transport")
        if protocol == "Direct":
            if transport is not None:
                self.errors.append(f'{at}.transport: Invalid value: "direct": config must be absent for direct connect')
            return None
        if protocol not in _PROTOCOLS:
            self.errors.append(
                f'{at}.protocol: Unsupported value: "{protocol}": supported values: {_listed(_PROTOCOLS)}'
            )
            return None
        if transport is None:
            self.errors.append(f"{at}.transport: Required value: transport must be set for {protocol}")
            return None
        given = self._object(f"{at}.transport", transport, {"tcp", "uds"})
        tcp, uds = given.get("tcp"), given.get("uds")
        is_grpc = protocol == "GRPC"
        if is_grpc and uds is None:
            self.errors.append(f"{at}.uds: Required value: UDS must be set with GRPC")
            return None
        if tcp is not None and uds is not None and not is_grpc:
            self.errors.append(f"{at}.tcp: Invalid value: TCP and UDS cannot both be set")
            return None
        if uds is not None:
            path = self._object(f"{at}.transport.uds", uds, {"udsName"}).get("udsName")
            if not path:
                self.errors.append(f'{at}.udsName: Invalid value: "nil": must be present for UDS connections')
                return None
            return Selection(name, is_grpc, str(path))
        if tcp is None:
            self.errors.append(f"{at}.tcp: Required value: One of TCP or UDS must be set")
            return None
        return self._tcp(at, name, self._object(f"{at}.transport.tcp", tcp, {"url", "tlsConfig"}))

    def _tcp(self, at: str, name: str, tcp: Object) -> Selection | None:
        url, tls = str(tcp.get("url") or ""), tcp.get("tlsConfig")
        if url.startswith(("http://", "https://")) and not _has_host(url):
            self.errors.append(f'{at}.url: Invalid value: "{url}": no host, or a port that is none')
            return None
        if url.startswith("http://"):
            if tls is not None:
                self.errors.append(f'{at}.tlsConfig: Invalid value: "nil": config must not be present when using HTTP')
            return Selection(name, url=url)
        if not url.startswith("https://"):
            self.errors.append(
                f'{at}.url: Invalid value: "{url}": supported connection protocols are http:// and https://'
            )
            return None
        if tls is None:
            self.errors.append(f"{at}.tlsConfig: Required value: TLSConfig must be present when using HTTPS")
            return None
        fields = self._object(f"{at}.transport.tcp.tlsConfig", tls, _TLS)
        given = {key: str(value) for key, value in fields.items() if value is not None}
        for field in ("clientCert", "clientKey"):
            if not given.get(field):
                self.errors.append(f'{at}.tlsConfig.{field}: Invalid value: "nil": Using TLS requires {field}')
        return Selection(
            name,
            url=url,
            ca=given.get("caBundle", ""),
            certificate=given.get("clientCert", ""),
            key=given.get("clientKey", ""),
            server_name=given.get("tlsServerName", ""),
        )


def _has_host(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _listed(values: tuple[str, ...]) -> str:
    return ", ".join(f'"{value}"' for value in values)
