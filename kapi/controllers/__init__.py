"""Controllers that every cluster needs (upstream: ``pkg/controlplane/controller``, parts of ``pkg/controller``).

Here belongs one module for each controller, and their common code: functions decide, the class reads and writes.  The garbage
collector is a package.  Not here: the controllers of kube-controller-manager that run workloads (docs/compatibility.rst), and
informers and work queues (``kapi.runtime``).
Start reading with ``builtin.py`` and ``namespaces.py``.
"""
