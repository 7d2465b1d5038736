"""Audit flags (upstream: apiserver ``server/options/audit.go``)."""

from __future__ import annotations

from kapi.options.flags import FlagSet, duration, integer, number, string


class AuditOptions(FlagSet):
    title = "Auditing"

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
        self.value("audit-webhook-batch-buffer-size", integer, 10000, "Events kept before they are sent.")
        self.value("audit-webhook-batch-max-size", integer, 400, "Most events of a batch.")
        self.value("audit-webhook-batch-max-wait", duration, 30.0, "Longest wait for a full batch.")
        self.value("audit-webhook-batch-throttle-qps", number, 10.0, "Batches a second.")
        self.value("audit-webhook-batch-throttle-burst", integer, 15, "Batches at once.")

        for name, buffered in (("log", 1), ("webhook", 400)):
            self.switch(f"audit-{name}-truncate-enabled", False, "Cut events and batches that are too large.")
            self.value(f"audit-{name}-truncate-max-batch-size", integer, 10485760, "Bytes of a batch.")
            self.value(f"audit-{name}-truncate-max-event-size", integer, 102400, "Bytes of an event.")
            if name == "log":
                self.value("audit-log-batch-buffer-size", integer, 10000, "Events kept before they are written.")
                self.value("audit-log-batch-max-size", integer, buffered, "Most events of a batch.")
                self.value("audit-log-batch-max-wait", duration, 0.0, "Longest wait for a full batch.")
                self.value("audit-log-batch-throttle-qps", number, 0.0, "Batches a second.")
                self.value("audit-log-batch-throttle-burst", integer, 0, "Batches at once.")
            self.switch(f"audit-{name}-batch-throttle-enable", name == "webhook", "Throttle batches.")

    def validate(self) -> list[str]:
        errors = []
        for name in ("audit-log-mode", "audit-webhook-mode"):
            if getattr(self, name.replace("-", "_")) not in ("batch", "blocking", "blocking-strict"):
                errors.append(f"--{name} must be one of batch, blocking, blocking-strict")
        if self.audit_log_format not in ("json", "legacy"):
            errors.append("--audit-log-format must be json or legacy")
        for name in ("audit-log-maxage", "audit-log-maxbackup", "audit-log-maxsize"):
            if getattr(self, name.replace("-", "_")) < 0:
                errors.append(f"--{name} can't be a negative number")
        if self.audit_webhook_batch_max_size > self.audit_webhook_batch_buffer_size:
            errors.append("--audit-webhook-batch-max-size must not exceed --audit-webhook-batch-buffer-size")
        return errors
