"""Authentication flags (upstream: pkg/kubeapiserver ``options/authentication.go``)."""

from __future__ import annotations

import re
from pathlib import Path

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509 import load_pem_x509_certificates
from twisted.logger import Logger

from kapi.authentication.oidc import ALGORITHMS
from kapi.machinery.golang import quote
from kapi.machinery.urls import parse_url
from kapi.options.authorization import AuthorizationOptions
from kapi.options.flags import FlagSet, array, duration, mapping, pairs, string, strings, switch, value
from kapi.wire.plugin_calls import require

log = Logger()
#: a path without white space, or a name in the abstract namespace of sockets
_ENDPOINT = re.compile(r"(/[^\s/]+)+|@([A-Za-z0-9_-]+\.)*[A-Za-z0-9_-]+")


class AuthenticationOptions(FlagSet):
    title = "Authentication"
    anonymous_auth = switch(True, "Let requests without credentials in as system:anonymous.")
    api_audiences = strings((), "Identifiers of the API; default: the service account issuers.")
    client_ca_file = value(string, "", "PEM bundle of the CAs that sign client certificates.")
    token_auth_file = value(string, "", "CSV file of static tokens: token,user,uid[,groups].")
    enable_bootstrap_token_auth = switch(False, "Accept secrets of type bootstrap.kubernetes.io/token.")
    service_account_issuer = array("Issuer of service account tokens; the first one signs.")
    service_account_jwks_uri = value(string, "", "URI of the key set in the discovery document.")
    service_account_key_file = array("PEM file with keys that verify service account tokens.")
    service_account_signing_key_file = value(string, "", "PEM file with the key that signs them.", group="Misc")
    service_account_max_token_expiration = value(duration, 0.0, "Longest validity of an issued token.")
    service_account_signing_endpoint = value(
        string, "", "Socket of a program that signs service account tokens.", group="Misc"
    )
    service_account_extend_token_expiration = switch(True, "Extend the expiry of projected tokens.")
    service_account_lookup = switch(True, "Check that the account and the bound objects still exist.")
    requestheader_client_ca_file = value(string, "", "PEM bundle of the CAs that sign front proxies.")
    requestheader_allowed_names = strings((), "Common names of front proxies; empty: any.")
    requestheader_username_headers = strings((), "Headers with the user name.")
    requestheader_uid_headers = strings((), "Headers with the user's uid.")
    requestheader_group_headers = strings((), "Headers with groups.")
    requestheader_extra_headers_prefix = strings((), "Prefixes of headers with extra information.")
    oidc_issuer_url = value(string, "", "URL of the OpenID issuer; https only.")
    oidc_client_id = value(string, "", "Client ID all tokens must be issued for.")
    oidc_ca_file = value(string, "", "PEM bundle for the issuer's certificate.")
    oidc_username_claim = value(string, "sub", "Claim with the user name.")
    oidc_username_prefix = value(string, "", "Prefix of user names; '-' for none.")
    oidc_groups_claim = value(string, "", "Claim with the groups.")
    oidc_groups_prefix = value(string, "", "Prefix of groups.")
    oidc_signing_algs = strings(("RS256",), "Accepted signing algorithms.")
    oidc_required_claim = mapping(pairs, "key=value that a token must carry; may be repeated.")
    authentication_token_webhook_config_file = value(string, "", "kubeconfig of a TokenReview webhook.")
    authentication_token_webhook_cache_ttl = value(duration, 120.0, "How long its answers are kept.")
    authentication_token_webhook_version = value(string, "v1beta1", "Version of TokenReview that is sent.")
    authentication_config = value(string, "", "AuthenticationConfiguration file.")

    def __init__(self, authorization: AuthorizationOptions | None = None) -> None:
        super().__init__()
        self._authorization = authorization

    def complete(self) -> None:
        self.issuers = list(self.service_account_issuer) or ["https://kubernetes.default.svc.cluster.local"]
        self.audiences = list(self.api_audiences) or list(self.issuers)
        modes = self._authorization.authorization_mode if self._authorization is not None else ()
        if "AlwaysAllow" in modes and self.anonymous_auth:
            self.anonymous_auth = False
            log.warn(
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
            problem = _url_problem(issuer) if ":" in issuer else ""
            if problem:
                errors.append(
                    f"service-account-issuer {quote(issuer)} contained a ':' but was not a valid URL: {problem}"
                )
            elif not issuer:
                errors.append("service-account-issuer should not be an empty string")
            elif issuer in seen:
                errors.append(f"service-account-issuer {quote(issuer)} is already specified")
            seen.add(issuer)
        uri = self.service_account_jwks_uri
        if uri and (problem := _url_problem(uri)):
            errors.append(f"service-account-jwks-uri must be a valid URL: {problem}")
        elif uri and parse_url(uri).scheme != "https":
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
        """Errors of a CA for both users and proxies: any user could act as a proxy, unless the proxies' names are given."""
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


def _url_problem(text: str) -> str:
    """Why a text is not a URL, in Go's words; "" when it is."""
    try:
        parse_url(text)
    except ValueError as error:
        return str(error)
    return ""
