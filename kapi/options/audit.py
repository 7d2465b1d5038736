"""Audit flags (upstream: apiserver ``server/options/audit.go``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from kapi.machinery.golang import quote
from kapi.options.flags import FlagSet, duration, integer, number, string

_MODES = ("batch", "blocking", "blocking-strict")
_FORMATS = ("legacy", "json")
_VERSION = "audit.k8s.io/v1"


class AuditOptions(FlagSet):
    title = "Auditing"

    audit_policy_file: str
    audit_log_path: str
    audit_log_format: str
    audit_webhook_config_file: str

    def add(self) -> None:
        self.value("audit-policy-file", string, "", "Policy that says what is recorded.")
        self.value("audit-log-path", string, "", "File for the log; '-' is standard output.")
        self.value("audit-log-format", string, "json", "json or legacy.")
        self.value("audit-log-mode", string, "blocking", "blocking, blocking-strict or batch.")
        self.value("audit-log-maxage", integer, 366, "Days to keep old files.")
        self.value("audit-log-maxbackup", integer, 100, "Old files to keep.")
        self.value("audit-log-maxsize", integer, 100, "Megabytes before a file is rotated.")
        self.switch("audit-log-compress", False, "Compress rotated files.")
        self.value("audit-webhook-config-file", string, "", "kubeconfig of the audit webhook.")
        self.value("audit-webhook-mode", string, "batch", "batch, blocking or blocking-strict.")
        self.value("audit-webhook-initial-backoff", duration, 10.0, "Wait before the first retry.")
        self.value(
            "audit-webhook-batch-initial-backoff",
            duration,
            10.0,
            "Wait before the first retry.",
            deprecated="Deprecated, use --audit-webhook-initial-backoff instead.",
        )
        self.value("audit-webhook-batch-buffer-size", integer, 10000, "Events kept before they are sent.")
        self.value("audit-webhook-batch-max-size", integer, 400, "Most events of a batch.")
        self.value("audit-webhook-batch-max-wait", duration, 30.0, "Longest wait for a full batch.")
        self.value("audit-webhook-batch-throttle-qps", number, 10.0, "Batches a second.", type="float32")
        self.value("audit-webhook-batch-throttle-burst", integer, 15, "Batches at once.")

        for name, buffered in (("log", 1), ("webhook", 400)):
            self.value(f"audit-{name}-version", string, _VERSION, "API version of the events.")
            self.switch(f"audit-{name}-truncate-enabled", False, "Cut events and batches that are too large.")
            self.value(f"audit-{name}-truncate-max-batch-size", integer, 10485760, "Bytes of a batch.")
            self.value(f"audit-{name}-truncate-max-event-size", integer, 102400, "Bytes of an event.")
            if name == "log":
                self.value("audit-log-batch-buffer-size", integer, 10000, "Events kept before they are written.")
                self.value("audit-log-batch-max-size", integer, buffered, "Most events of a batch.")
                self.value("audit-log-batch-max-wait", duration, 0.0, "Longest wait for a full batch.")
                self.value("audit-log-batch-throttle-qps", number, 0.0, "Batches a second.", type="float32")
                self.value("audit-log-batch-throttle-burst", integer, 0, "Batches at once.")
            self.switch(f"audit-{name}-batch-throttle-enable", name == "webhook", "Throttle batches.")

    def complete(self) -> None:
        old, new = self.flags["audit-webhook-batch-initial-backoff"], self.flags["audit-webhook-initial-backoff"]
        if self.is_set(old.name) and not self.is_set(new.name):
            setattr(self, new.attribute, getattr(self, old.attribute))

    def validate(self) -> list[str]:
        """Checks only the back ends that are used, as upstream."""
        errors = []
        if self.audit_log_path:
            errors += self._backend("log")
            if self.audit_log_format not in _FORMATS:
                allowed = quote(",".join(_FORMATS))
                errors.append(f"invalid audit log format {self.audit_log_format}, allowed formats are {allowed}")
            for name in ("maxage", "maxbackup", "maxsize"):
                value = getattr(self, f"audit_log_{name}")
                if value < 0:
                    errors.append(f"--audit-log-{name} {value} can't be a negative number")
        if self.audit_webhook_config_file:
            errors += self._backend("webhook")
        return errors

    def _backend(self, name: str) -> list[str]:
        """Checks that log and webhook have in common; as upstream, only the first error of batches and of sizes."""

        def value(rest: str) -> float:
            return cast(float, getattr(self, f"audit_{name}_{rest}"))

        mode: str = getattr(self, f"audit_{name}_mode")
        version: str = getattr(self, f"audit_{name}_version")
        errors = [text for text in (self._batches(name, mode, value), self._sizes(name, value)) if text]
        if version != _VERSION:
            errors.append(f"invalid group version, allowed versions are [{quote(_VERSION)}]")
        return errors

    @staticmethod
    def _batches(name: str, mode: str, value: Callable[[str], float]) -> str:
        if mode not in _MODES:
            return f"invalid audit {name} mode {mode}, allowed modes are {quote(','.join(_MODES))}"
        if mode != "batch":
            return ""
        positive = [("buffer size", "buffer_size"), ("max batch size", "max_size")]
        if value("batch_throttle_enable"):
            positive += [("throttle QPS", "throttle_qps"), ("throttle burst", "throttle_burst")]
        for text, rest in positive:
            number = value(f"batch_{rest}")
            if number <= 0:
                return f"invalid audit batch {name} {text} {number:g}, must be a positive number"
        return ""

    @staticmethod
    def _sizes(name: str, value: Callable[[str], float]) -> str:
        event, batch = value("truncate_max_event_size"), value("truncate_max_batch_size")
        if event <= 0:
            return f"invalid audit truncate {name} max event size {event}, must be a positive number"
        if batch < event:
            return (
                f"invalid audit truncate {name} max batch size {batch}, must be greater than max event size ({event})"
            )
        return ""
