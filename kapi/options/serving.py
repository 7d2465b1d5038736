"""Secure serving flags (upstream: apiserver ``server/options/serving.go``)."""

from __future__ import annotations

from kapi.options.flags import FlagError, FlagSet, integer, ip_address, items, string, strings, switch, value

#: Go's names -> OpenSSL's names
CIPHER_SUITES = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    # insecure for Go
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
}
#: accepted, but never offered, since OpenSSL does not have them any more
MISSING_SUITES = (
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_RC4_128_SHA",
)
#: cipher suites of TLS 1.3, which are always offered and cannot be configured
TLS13_SUITES = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
VERSIONS = ("VersionTLS12", "VersionTLS13")


#: number in TLS -> OpenSSL's name
CURVES = {23: "P-256", 24: "P-384", 25: "P-521", 29: "X25519", 4588: "X25519MLKEM768"}


def curve(text: str) -> str:
    """OpenSSL's name of a key exchange."""
    found = CURVES.get(integer(text))
    if found is None:
        raise FlagError(f"curve {text} is not supported: one of {', '.join(map(str, CURVES))}")
    return found


def sni_pair(text: str) -> tuple[str, str, tuple[str, ...]]:
    """``cert,key[:pattern,pattern]`` as (certificate file, key file, host patterns)."""
    files, mark, patterns = text.partition(":")
    parts = [part.strip() for part in files.split(",")]
    if len(parts) != 2 or not all(parts):
        raise FlagError("expected comma separated certificate and key file paths")
    names = tuple(name.strip() for name in patterns.split(",")) if mark else ()
    if mark and not all(names):
        raise FlagError("expected a list of domain patterns after the colon")
    return parts[0], parts[1], names


class ServingOptions(FlagSet):
    title = "Secure serving"

    bind_address = value(ip_address, "0.0.0.0", "IP address on which to listen.")
    secure_port = value(integer, 6443, "Port for HTTPS; 0 takes a free one.")
    tls_cert_file = value(string, "", "PEM file with the serving certificate and its chain.")
    tls_private_key_file = value(string, "", "PEM file with the key of --tls-cert-file.")
    cert_dir = value(string, "", "Directory of the generated keys and certificates; default: <data-dir>/pki.")
    tls_cipher_suites = strings((), "Cipher suites up to TLS 1.2, comma separated; TLS 1.3 has its own.")
    tls_min_version = value(string, "", "Least TLS version: VersionTLS12 or VersionTLS13.")
    disable_http2_serving = switch(False, "Serve HTTP/1.1 only.")
    http2_max_streams_per_connection = value(integer, 0, "Most concurrent streams of a client; 0: 100.")
    permit_port_sharing = switch(False, "Listen with SO_REUSEPORT, so that several processes share the port.")
    tls_sni_cert_key = items(
        sni_pair, (), "cert,key[:hosts] for a server name; may be repeated.", "array", type="namedCertKey"
    )
    tls_curve_preferences = items(
        curve,
        (),
        f"Key exchanges in the order of preference: {', '.join(f'{number} {name}' for number, name in CURVES.items())}.",
        type="int32Slice",
    )

    def add(self) -> None:
        always = "it is always done, as Go does it"
        self.declare("permit-address-sharing", switch(False, "Listen with SO_REUSEADDR.", inert=always))

    def complete(self) -> None:
        self.minimum_version = self.tls_min_version or VERSIONS[0]
        self.ciphers = [CIPHER_SUITES[name] for name in self.tls_cipher_suites if name in CIPHER_SUITES]
        if self.tls_cipher_suites and not self.ciphers:  # they are all of TLS 1.3
            self.minimum_version = VERSIONS[1]
        ec_suites = {suite.startswith("ECDHE-ECDSA-") for suite in self.ciphers}
        #: a generated certificate has a key of one of these kinds, by default of the first; upstream always uses RSA
        self.key_kinds = ("RSA",) if False in ec_suites else ("ECDSA",) if ec_suites else ("ECDSA", "RSA")

    def validate(self) -> list[str]:
        errors = []
        if not 0 <= self.secure_port <= 65535:
            errors.append(f"--secure-port {self.secure_port} must be between 0 and 65535, inclusive")
        if bool(self.tls_cert_file) != bool(self.tls_private_key_file):
            errors.append("--tls-cert-file and --tls-private-key-file must be given together")
        if self.tls_min_version and self.tls_min_version not in VERSIONS:
            errors.append(
                f"--tls-min-version: unknown tls version {self.tls_min_version!r}: one of {', '.join(VERSIONS)}"
            )
        for name in self.tls_cipher_suites:
            if name not in (*CIPHER_SUITES, *TLS13_SUITES, *MISSING_SUITES):
                errors.append(f"--tls-cipher-suites: Cipher suite {name} not supported or doesn't exist")
        if self.http2_max_streams_per_connection < 0:
            errors.append("--http2-max-streams-per-connection can not be negative value")
        return errors
