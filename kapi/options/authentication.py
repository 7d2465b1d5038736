"""Authentication flags (upstream: pkg/kubeapiserver ``options/authentication.go``)."""

from __future__ import annotations

import re
from pathlib import Path

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509 import load_pem_x509_certificates
from twisted.logger import Logger

from kapi.authentication.oidc import ALGORITHMS
from kapi.machinery.golang import quote
from kapi.options.authorization import AuthorizationOptions
from kapi.options.flags import FlagSet, duration, pairs, string
from kapi.wire.plugin_calls import require

_log = Logger()
#: a path without white space, or a name in the abstract namespace of sockets
_ENDPOINT = re.compile(r"(/[^\s/]+)+|@([A-Za-z0-9_-]+\.)*[A-Za-z0-9_-]+")


class AuthenticationOptions(FlagSet):
    title = "Authentication"
    anonymous_auth: bool
    api_audiences: list[str]
    client_ca_file: str
    token_auth_file: str
    enable_bootstrap_token_auth: bool
    service_account_issuer: list[str]
    service_account_jwks_uri: str
    service_account_key_file: list[str]
    service_account_signing_key_file: str
    service_account_max_token_expiration: float
    service_account_signing_endpoint: str
    service_account_extend_token_expiration: bool
    service_account_lookup: bool
    requestheader_client_ca_file: str
    requestheader_allowed_names: list[str]
    requestheader_username_headers: list[str]
    requestheader_uid_headers: list[str]
    requestheader_group_headers: list[str]
    requestheader_extra_headers_prefix: list[str]
    oidc_issuer_url: str
    oidc_client_id: str
    oidc_ca_file: str
    oidc_username_claim: str
    oidc_username_prefix: str
    oidc_groups_claim: str
    oidc_groups_prefix: str
    oidc_signing_algs: list[str]
    oidc_required_claim: dict[str, str]
    authentication_token_webhook_config_file: str
    authentication_token_webhook_cache_ttl: float
    authentication_token_webhook_version: str
    authentication_config: str

    def __init__(self, authorization: AuthorizationOptions | None = None) -> None:
        super().__init__()
        self._authorization = authorization

    def add(self) -> None:
        self.switch("anonymous-auth", True, "Let requests without credentials in as system:anonymous.")
        self.strings("api-audiences", (), "Identifiers of the API; default: the service account issuers.")
        self.value("client-ca-file", string, "", "PEM bundle of the CAs that sign client certificates.")
        self.value("token-auth-file", string, "", "CSV file of static tokens: token,user,uid[,groups].")
        self.switch("enable-bootstrap-token-auth", False, "Accept secrets of type bootstrap.kubernetes.io/token.")
        self.array("service-account-issuer", "Issuer of service account tokens; the first one signs.")
        self.value("service-account-jwks-uri", string, "", "URI of the key set in the discovery document.")
        self.array("service-account-key-file", "PEM file with keys that verify service account tokens.")
        self.value(
            "service-account-signing-key-file", string, "", "PEM file with the key that signs them.", group="Misc"
        )
        self.value("service-account-max-token-expiration", duration, 0.0, "Longest validity of an issued token.")
        self.value(
            "service-account-signing-endpoint",
            string,
            "",
            "Socket of a program that signs service account tokens.",
            group="Misc",
        )
        self.switch("service-account-extend-token-expiration", True, "Extend the expiry of projected tokens.")
        self.switch("service-account-lookup", True, "Check that the account and the bound objects still exist.")
        self.value("requestheader-client-ca-file", string, "", "PEM bundle of the CAs that sign front proxies.")
        self.strings("requestheader-allowed-names", (), "Common names of front proxies; empty: any.")
        self.strings("requestheader-username-headers", (), "Headers with the user name.")
        self.strings("requestheader-uid-headers", (), "Headers with the user's uid.")
        self.strings("requestheader-group-headers", (), "Headers with groups.")
        self.strings("requestheader-extra-headers-prefix", (), "Prefixes of headers with extra information.")
        self.value("oidc-issuer-url", string, "", "URL of the OpenID issuer; https only.")
        self.value("oidc-client-id", string, "", "Client ID all tokens must be issued for.")
        self.value("oidc-ca-file", string, "", "PEM bundle for the issuer's certificate.")
        self.value("oidc-username-claim", string, "sub", "Claim with the user name.")
        self.value("oidc-username-prefix", string, "", "Prefix of user names; '-' for none.")
        self.value("oidc-groups-claim", string, "", "Claim with the groups.")
        self.value("oidc-groups-prefix", string, "", "Prefix of groups.")
        self.strings("oidc-signing-algs", ("RS256",), "Accepted signing algorithms.")
        self.mapping("oidc-required-claim", pairs, "key=value that a token must carry; may be repeated.")
        self.value("authentication-token-webhook-config-file", string, "", "kubeconfig of a TokenReview webhook.")
        self.value("authentication-token-webhook-cache-ttl", duration, 120.0, "How long its answers are kept.")
        self.value("authentication-token-webhook-version", string, "v1beta1", "Version of TokenReview that is sent.")
        self.value("authentication-config", string, "", "AuthenticationConfiguration file.")

    def complete(self) -> None:
        self.issuers = list(self.service_account_issuer) or ["https://kubernetes.default.svc.cluster.local"]
        self.audiences = list(self.api_audiences) or list(self.issuers)
        modes = self._authorization.authorization_mode if self._authorization is not None else ()
        if "AlwaysAllow" in modes and self.anonymous_auth:
            self.anonymous_auth = False
            _log.warn(
                "AnonymousAuth is not allowed with the AlwaysAllow authorizer. Resetting AnonymousAuth to false. You "
                "should use a different authorizer"
            )

    def validate(self) -> list[str]:
        errors = []
        oidc = any(name.startswith("oidc-") for name in self.given)
        if self.authentication_config and oidc:
            errors.append("authentication-config file and oidc-* flags are mutually exclusive")
        elif oidc and not (self.oidc_issuer_url and self.oidc_client_id):
            errors.append("oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set")
        for algorithm in self.oidc_signing_algs:
            if algorithm not in ALGORITHMS:
                errors.append(f"oidc: unsupported signing alg: {quote(algorithm)}")
        seen: set[str] = set()
        for issuer in self.service_account_issuer:
            if not issuer:
                errors.append("service-account-issuer should not be an empty string")
            elif issuer in seen:
                errors.append(f"service-account-issuer {quote(issuer)} is already specified")
            seen.add(issuer)
        uri = self.service_account_jwks_uri
        if uri and not uri.startswith("https://"):
            errors.append(f"service-account-jwks-uri requires https scheme, parsed as: {uri}")
        if self.service_account_max_token_expiration and not (
            3600 <= self.service_account_max_token_expiration <= 2**32
        ):
            errors.append("the service-account-max-token-expiration must be between 1 hour and 2^32 seconds")
        if self.authentication_token_webhook_version not in ("v1", "v1beta1"):
            errors.append("--authentication-token-webhook-version must be v1 or v1beta1")
        return errors + self._signer() + self._proxy_headers()

    def _signer(self) -> list[str]:
        endpoint = self.service_account_signing_endpoint
        if not endpoint:
            return []
        errors = []
        if self.service_account_signing_key_file or self.service_account_key_file:
            errors.append(
                "can't set `--service-account-signing-key-file` and/or `--service-account-key-file` with "
                "`--service-account-signing-endpoint` (They are mutually exclusive)"
            )
        if not _ENDPOINT.fullmatch(endpoint):
            errors.append(
                f"invalid value {quote(endpoint)} passed for `--service-account-signing-endpoint`, should be a valid "
                "location on the filesystem or must be prefixed with @ to name UDS in abstract namespace"
            )
        try:
            require()
        except ImportError as error:
            errors.append(f"--service-account-signing-endpoint: {error}: install kapi[kms]")
        return errors

    def _proxy_headers(self) -> list[str]:
        errors = []
        for name in ("username-headers", "group-headers", "extra-headers-prefix", "allowed-names", "uid-headers"):
            flag = f"requestheader-{name}"
            if any(not value.strip() for value in getattr(self, flag.replace("-", "_"))):
                errors.append(f"empty value in {quote(flag)}")
        uids = self.requestheader_uid_headers
        if uids and "x-remote-uid" not in {header.lower() for header in uids}:
            errors.append(
                "--requestheader-uid-headers is set without specifying the standard X-Remote-Uid header - API "
                "aggregation will not work"
            )
        return errors + self._overlap()

    def _overlap(self) -> list[str]:
        """A CA for both users and proxies would let any user act as a proxy, unless the proxies' names are given."""
        users, proxies = self.client_ca_file, self.requestheader_client_ca_file
        if not users or not proxies or self.requestheader_allowed_names:
            return []
        try:
            known = {each.fingerprint(SHA256()) for each in load_pem_x509_certificates(Path(users).read_bytes())}
            others = {each.fingerprint(SHA256()) for each in load_pem_x509_certificates(Path(proxies).read_bytes())}
        except (OSError, ValueError):
            return []  # reported where the files are used
        if known.isdisjoint(others):
            return []
        return [
            "--requestheader-client-ca-file and --client-ca-file contain overlapping certificates; "
            "--requestheader-allowed-names must be specified to ensure regular client certificates cannot set "
            "authenticating proxy headers for arbitrary users"
        ]
