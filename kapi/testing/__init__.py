"""The test kit, public (upstream: controller-runtime ``envtest``, ``cmd/kube-apiserver/app/testing``).

Here belong a real kapi in a process of its own (``process``), and an API server in memory (``memory_api``), to which tests send
requests of ``http``.  Not here: fakes that only kapi's own tests use (``tests``).
Start reading with ``process.py`` and ``memory_api.py``.
"""
