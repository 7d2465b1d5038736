"""Controllers that every cluster needs (upstream: ``pkg/controlplane/controller``, parts of ``pkg/controller``).

Here belongs one package a controller: ``controller.py`` reads and writes, ``reconcile.py`` decides; what several of them
need is next to the packages.  Not here: the controllers of kube-controller-manager that run workloads (docs/compatibility.rst),
and the work queue (``kapi.client``).
Start reading with ``builtin.py`` and ``namespaces/controller.py``.
"""
