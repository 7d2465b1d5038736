"""Authorization flags (upstream: pkg/kubeapiserver ``options/authorization.go``)."""

from __future__ import annotations

from typing import Any

from kapi.options.flags import FlagSet, duration, string

MODES = ("AlwaysAllow", "AlwaysDeny", "ABAC", "Webhook", "RBAC", "Node")


class AuthorizationOptions(FlagSet):
    title = "Authorization"

    def add(self) -> None:
        self.strings("authorization-mode", (), "Authorizers in order: " + ",".join(MODES) + ". Default Node,RBAC.")
        self.value("authorization-policy-file", string, "", "ABAC policy, one JSON object a line.")
        self.value("authorization-webhook-config-file", string, "", "kubeconfig of a SubjectAccessReview webhook.")
        self.value(
            "authorization-webhook-cache-authorized-ttl", duration, 300.0, "How long it is believed when it allows."
        )
        self.value("authorization-webhook-cache-unauthorized-ttl", duration, 30.0, "How long when it does not.")
        self.value("authorization-webhook-version", string, "v1beta1", "Version of SubjectAccessReview that is sent.")
        self.value("authorization-config", string, "", "AuthorizationConfiguration file.")

    def complete(self, options: Any) -> None:
        self.modes = list(self.authorization_mode) or ["Node", "RBAC"]

    def validate(self) -> list[str]:
        errors = []
        modes = self.modes
        if self.authorization_config and self.is_set("authorization-mode"):
            errors.append("--authorization-config can not be specified when --authorization-mode is set")
        for mode in modes:
            if mode not in MODES:
                errors.append(f"authorization-mode {mode!r} is not a valid mode".replace("'", '"'))
        if len(set(modes)) != len(modes):
            errors.append(f"authorization-mode {modes} has mode specified more than once")
        if ("ABAC" in modes) != bool(self.authorization_policy_file):
            errors.append("--authorization-policy-file and authorization-mode ABAC need each other")
        if ("Webhook" in modes) != bool(self.authorization_webhook_config_file):
            errors.append("--authorization-webhook-config-file and authorization-mode Webhook need each other")
        return errors
