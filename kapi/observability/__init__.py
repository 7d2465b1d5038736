"""Metrics, logs, profiles, traces and zpages (upstream: component-base ``metrics``, ``logs``, ``tracing`` and ``zpages``).

Here belong the registry of metrics and the families of a whole process, the log of the process, ``/logs``, ``/debug/pprof``,
``/statusz`` and ``/flagz``, and OpenTelemetry's SDK.  Not here: the metrics of a package, which are in its own module
``metrics``, and the audit log (``kapi.audit``).  Start reading with ``metrics.py`` and ``logging.py``.
"""
