"""Auditing: records which user did what (upstream: apiserver ``pkg/audit`` and ``plugin/pkg/audit``).

Here belong the policy, the audit event of one request, and the back ends (log file, webhook) with their batching.  Not here: the
filter that begins and ends an event (``kapi.filters.audit``).
Start reading with ``event.py`` and ``sinks.py``.
"""
