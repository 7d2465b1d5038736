"""Audit flags (upstream: apiserver ``server/options/audit.go``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from kapi.machinery.golang import quote
from kapi.options.flags import FlagSet, duration, integer, number, string, switch, value

_MODES = ("batch", "blocking", "blocking-strict")
_FORMATS = ("legacy", "json")
_VERSION = "audit.k8s.io/v1"


class AuditOptions(FlagSet):
    title = "Auditing"

    audit_policy_file = value(string, "", "Policy that says what is recorded.")
    audit_log_path = value(string, "", "File for the log; '-' is standard output.")
    audit_log_format = value(string, "json", "json or legacy.")
    audit_webhook_config_file = value(string, "", "kubeconfig of the audit webhook.")

    def add(self) -> None:
        self.declare("audit-log-mode", value(string, "blocking", "blocking, blocking-strict or batch."))
        self.declare("audit-log-maxage", value(integer, 366, "Days to keep old files."))
        self.declare("audit-log-maxbackup", value(integer, 100, "Old files to keep."))
        self.declare("audit-log-maxsize", value(integer, 100, "Megabytes before a file is rotated."))
        self.declare("audit-log-compress", switch(False, "Compress rotated files."))
        self.declare("audit-webhook-mode", value(string, "batch", "batch, blocking or blocking-strict."))
        self.declare("audit-webhook-initial-backoff", value(duration, 10.0, "Wait before the first retry."))
        self.declare(
            "audit-webhook-batch-initial-backoff",
            value(
                duration,
                10.0,
                "Wait before the first retry.",
                deprecated="Deprecated, use --audit-webhook-initial-backoff instead.",
            ),
        )
        self.declare("audit-webhook-batch-buffer-size", value(integer, 10000, "Events kept before they are sent."))
        self.declare("audit-webhook-batch-max-size", value(integer, 400, "Most events of a batch."))
        self.declare("audit-webhook-batch-max-wait", value(duration, 30.0, "Longest wait for a full batch."))
        self.declare("audit-webhook-batch-throttle-qps", value(number, 10.0, "Batches a second.", type="float32"))
        self.declare("audit-webhook-batch-throttle-burst", value(integer, 15, "Batches at once."))

        for name, buffered in (("log", 1), ("webhook", 400)):
            self.declare(f"audit-{name}-version", value(string, _VERSION, "API version of the events."))
            self.declare(f"audit-{name}-truncate-enabled", switch(False, "Cut events and batches that are too large."))
            self.declare(f"audit-{name}-truncate-max-batch-size", value(integer, 10485760, "Bytes of a batch."))
            self.declare(f"audit-{name}-truncate-max-event-size", value(integer, 102400, "Bytes of an event."))
            if name == "log":
                self.declare(
                    "audit-log-batch-buffer-size", value(integer, 10000, "Events kept before they are written.")
                )
                self.declare("audit-log-batch-max-size", value(integer, buffered, "Most events of a batch."))
                self.declare("audit-log-batch-max-wait", value(duration, 0.0, "Longest wait for a full batch."))
                self.declare("audit-log-batch-throttle-qps", value(number, 0.0, "Batches a second.", type="float32"))
                self.declare("audit-log-batch-throttle-burst", value(integer, 0, "Batches at once."))
            self.declare(f"audit-{name}-batch-throttle-enable", switch(name == "webhook", "Throttle batches."))

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
        """Common checks of log and webhook; as upstream, only the first error of batches and of sizes."""

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
