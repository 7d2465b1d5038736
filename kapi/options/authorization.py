"""Authorization flags (upstream: pkg/kubeapiserver ``options/authorization.go``)."""

from __future__ import annotations

from kapi.authorization.configuration import TYPES
from kapi.machinery.golang import quote
from kapi.options.flags import FlagSet, duration, string


class AuthorizationOptions(FlagSet):
    title = "Authorization"

    authorization_mode: list[str]
    authorization_policy_file: str
    authorization_webhook_config_file: str
    authorization_webhook_cache_authorized_ttl: float
    authorization_webhook_cache_unauthorized_ttl: float
    authorization_webhook_version: str
    authorization_config: str

    def add(self) -> None:
        self.strings("authorization-mode", (), "Authorizers in order: " + ",".join(TYPES) + ". Default Node,RBAC.")
        self.value("authorization-policy-file", string, "", "ABAC policy, one JSON object a line.")
        self.value("authorization-webhook-config-file", string, "", "kubeconfig of a SubjectAccessReview webhook.")
        self.value(
            "authorization-webhook-cache-authorized-ttl", duration, 300.0, "How long it is believed when it allows."
        )
        self.value("authorization-webhook-cache-unauthorized-ttl", duration, 30.0, "How long when it does not.")
        self.value("authorization-webhook-version", string, "v1beta1", "Version of SubjectAccessReview that is sent.")
        self.value("authorization-config", string, "", "AuthorizationConfiguration file.")

    def complete(self) -> None:
        self.modes = list(self.authorization_mode) or ["Node", "RBAC"]

    def validate(self) -> list[str]:
        if self.authorization_config:
            if any(self.is_set(name) for name in self.flags if name != "authorization-config"):
                return [
                    "--authorization-config can not be specified when --authorization-mode or "
                    "--authorization-webhook-* flags are defined"
                ]
            return []
        errors = []
        modes = self.modes
        for mode in modes:
            if mode not in TYPES:
                errors.append(f"authorization-mode {quote(mode)} is not a valid mode")
            if mode == "ABAC" and not self.authorization_policy_file:
                errors.append("authorization-mode ABAC's authorization policy file not passed")
            if mode == "Webhook" and not self.authorization_webhook_config_file:
                errors.append("authorization-mode Webhook's authorization config file not passed")
        if self.authorization_policy_file and "ABAC" not in modes:
            errors.append("cannot specify --authorization-policy-file without mode ABAC")
        if self.authorization_webhook_config_file and "Webhook" not in modes:
            errors.append("cannot specify --authorization-webhook-config-file without mode Webhook")
        if len(set(modes)) != len(modes):
            shown = " ".join(quote(mode) for mode in modes)
            errors.append(f"authorization-mode [{shown}] has mode specified more than once")
        if self.authorization_webhook_version not in ("v1", "v1beta1"):
            errors.append("--authorization-webhook-version must be v1 or v1beta1")
        return errors
