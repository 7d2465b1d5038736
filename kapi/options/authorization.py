"""Authorization flags (upstream: pkg/kubeapiserver ``options/authorization.go``)."""

from __future__ import annotations

from kapi.authorization.configuration import TYPES
from kapi.machinery.golang import quote
from kapi.options.flags import FlagSet, duration, string, strings, value


class AuthorizationOptions(FlagSet):
    title = "Authorization"

    authorization_mode = strings((), "Authorizers in order: " + ",".join(TYPES) + ". Default Node,RBAC.")
    authorization_policy_file = value(string, "", "ABAC policy, one JSON object a line.")
    authorization_webhook_config_file = value(string, "", "kubeconfig of a SubjectAccessReview webhook.")
    authorization_webhook_cache_authorized_ttl = value(duration, 300.0, "How long it is believed when it allows.")
    authorization_webhook_cache_unauthorized_ttl = value(duration, 30.0, "How long when it does not.")
    authorization_webhook_version = value(string, "v1beta1", "Version of SubjectAccessReview that is sent.")
    authorization_config = value(string, "", "AuthorizationConfiguration file.")

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
