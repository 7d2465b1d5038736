"""The flags of etcd 3.6 (etcd ``server/etcdmain/help.go``): a few have an effect, scripts use the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from kapi.options.errors import ConfigError
from kapi.options.flags import FlagSet, parse, string, switch, value

#: name -> default, help
_ACTING = {
    "name": ("default", "Name of this member."),
    "data-dir": ("", "Directory of the data; default: NAME.etcd."),
    "listen-client-urls": ("http://localhost:2379", "URLs to listen on for clients, http or https, comma separated."),
    "listen-client-http-urls": ("", "URLs that answer HTTP only, such as /health."),
    "listen-metrics-urls": ("", "The same, for probes."),
    "initial-cluster": ("default=http://localhost:2380", "Members of the cluster: one."),
    "cert-file": ("", "PEM file with the certificate of https URLs."),
    "key-file": ("", "PEM file with the key of --cert-file."),
    "trusted-ca-file": ("", "PEM file with the CAs of client certificates."),
    "log-level": ("info", "debug, info, warn, error, panic or fatal."),
}
_ACTING_SWITCHES = {
    "client-cert-auth": "Only clients with a certificate of --trusted-ca-file.",
    "unsafe-no-fsync": "Do not wait for the disk: faster, and what was written last may be lost with the machine.",
}
_VALUES = """
advertise-client-urls auth-token auth-token-ttl auto-compaction-mode auto-compaction-retention backend-batch-interval
backend-batch-limit backend-bbolt-freelist-type bcrypt-cost bootstrap-defrag-threshold-megabytes cipher-suites
client-cert-allowed-hostname client-cert-file client-crl-file client-key-file compact-hash-check-time compaction-batch-limit
compaction-sleep-interval corrupt-check-time cors discovery discovery-cacert discovery-cert discovery-dial-timeout
discovery-endpoints discovery-fallback discovery-keepalive-time discovery-keepalive-timeout discovery-key discovery-password
discovery-proxy discovery-request-timeout discovery-srv discovery-srv-name discovery-token discovery-user
distributed-tracing-address distributed-tracing-instance-id distributed-tracing-sampling-rate distributed-tracing-service-name
downgrade-check-time election-timeout experimental-bootstrap-defrag-threshold-megabytes experimental-compact-hash-check-time
experimental-compaction-batch-limit experimental-compaction-sleep-interval experimental-corrupt-check-time
experimental-distributed-tracing-address experimental-distributed-tracing-instance-id
experimental-distributed-tracing-sampling-rate experimental-distributed-tracing-service-name experimental-downgrade-check-time
experimental-max-learners experimental-snapshot-catchup-entries experimental-warning-apply-duration
experimental-warning-unary-request-duration experimental-watch-progress-notify-interval feature-gates grpc-keepalive-interval
grpc-keepalive-min-time grpc-keepalive-timeout heartbeat-interval host-whitelist initial-advertise-peer-urls initial-cluster-state
initial-cluster-token listen-peer-urls log-format log-outputs log-rotation-config-json logger max-concurrent-streams max-learners
max-request-bytes max-snapshots max-txn-ops max-wals metrics peer-cert-allowed-cn peer-cert-allowed-hostname peer-cert-file
peer-client-cert-file peer-client-key-file peer-crl-file peer-key-file peer-trusted-ca-file quota-backend-bytes raft-read-timeout
raft-write-timeout self-signed-cert-validity snapshot-catchup-entries snapshot-count tls-max-version tls-min-version
v2-deprecation wal-dir warning-apply-duration warning-unary-request-duration watch-progress-notify-interval
"""
_SWITCHES = """
enable-distributed-tracing enable-grpc-gateway enable-log-rotation enable-pprof enable-v2
experimental-compact-hash-check-enabled experimental-enable-distributed-tracing experimental-enable-lease-checkpoint
experimental-enable-lease-checkpoint-persist experimental-initial-corrupt-check experimental-memory-mlock
experimental-peer-skip-client-san-verification experimental-stop-grpc-service-on-defrag
experimental-txn-mode-write-with-shared-buffer force-new-cluster initial-election-tick-advance memory-mlock
peer-client-cert-auth peer-skip-client-san-verification pre-vote socket-reuse-address socket-reuse-port strict-reconfig-check
"""
#: flag -> reason why it is refused
_REFUSED = {
    "config-file": "give the flags themselves",
    "auto-tls": "give --cert-file and --key-file",
    "peer-auto-tls": "there are no peers",
}
_INERT = "the store has neither peers nor a log of its own to set"


class EtcdFlags(FlagSet):
    """etcd's flags; URLs such as ``client_urls`` are parsed: (scheme, host, port)."""

    title = "Etcd"

    name: str
    data_dir: str
    listen_client_urls: str
    listen_client_http_urls: str
    listen_metrics_urls: str
    initial_cluster: str
    cert_file: str
    key_file: str
    trusted_ca_file: str
    log_level: str
    client_cert_auth: bool
    unsafe_no_fsync: bool

    def add(self) -> None:
        for name, (default, text) in _ACTING.items():
            self.declare(name, value(string, default, text))
        for name, text in _ACTING_SWITCHES.items():
            self.declare(name, switch(False, text))
        for name in _VALUES.split():
            self.declare(name, value(string, "", "", inert=_INERT))
        for name in _SWITCHES.split():
            self.declare(name, switch(False, "", inert=_INERT))
        for name, why in _REFUSED.items():
            self.declare(name, value(string, "", "", refused=why))

    def complete(self) -> None:
        self.directory: str = self.data_dir or f"{self.name}.etcd"
        self.client_urls = _listeners("listen-client-urls", self.listen_client_urls)
        self.http_urls = [
            *_listeners("listen-client-http-urls", self.listen_client_http_urls),
            *_listeners("listen-metrics-urls", self.listen_metrics_urls),
        ]

    def validate(self) -> list[str]:
        errors = []
        if len([member for member in self.initial_cluster.split(",") if member.strip()]) > 1:
            errors.append("--initial-cluster: there is one member; kapi's etcd keeps the data of one machine")
        if bool(self.cert_file) != bool(self.key_file):
            errors.append("--cert-file and --key-file must be given together")
        if any(scheme == "https" for scheme, _, _ in (*self.client_urls, *self.http_urls)) and not self.cert_file:
            errors.append("an https URL needs --cert-file and --key-file")
        if self.client_cert_auth and not self.trusted_ca_file:
            errors.append("--client-cert-auth needs --trusted-ca-file")
        return errors


def from_command_line(arguments: Sequence[str], environment: Mapping[str, str]) -> EtcdFlags:
    """Of Go's form: one dash or two; ``ETCD_DATA_DIR`` is ``--data-dir`` where that is not given.  Raises ConfigError."""
    flags = EtcdFlags()
    doubled = [f"-{each}" if each[:1] == "-" and each[1:2].isalpha() else each for each in arguments]
    given = [
        f"--{name}={environment[variable]}"
        for name, variable in ((name, f"ETCD_{name.upper().replace('-', '_')}") for name in flags.flags)
        if variable in environment
    ]
    errors = parse([flags], [*given, *doubled])
    try:
        flags.complete()
    except ConfigError as error:
        errors.extend(error.messages)
    else:
        errors.extend(flags.validate())
    if errors:
        raise ConfigError(*errors)
    return flags


def help_text() -> str:
    """The help text in etcd's form: each flag's line begins with two spaces and its name, which test tools search for."""
    flags = sorted(EtcdFlags().flags.values(), key=lambda flag: (bool(flag.inert), flag.name))
    lines = ["Usage:", "", "  etcd [flags]", "    Keeps the objects of kube-apiserver.", ""]
    for flag in flags:
        if flag.refused:
            continue
        default = "false" if flag.default is False else flag.default
        lines += [f"  --{flag.name} '{default}'", f"    {flag.help or 'No effect.'}"]
    return "\n".join(lines)


def _listeners(flag: str, text: str) -> list[tuple[str, str, int]]:
    """Raises ConfigError."""
    found = []
    for url in filter(None, (each.strip() for each in text.split(","))):
        parts = address_of(url)
        if parts is None:
            raise ConfigError(f"--{flag}: {url}: http://ADDRESS:PORT or https://ADDRESS:PORT is needed")
        scheme, host, port = parts
        found.append((scheme, "127.0.0.1" if host == "localhost" else host, port))
    return found


def address_of(url: str) -> tuple[str, str, int] | None:
    """Scheme, host and port of a URL of etcd; None when it is invalid."""
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = None
    if parts.scheme not in ("http", "https") or not parts.hostname or port is None:
        return None
    return parts.scheme, parts.hostname, port
