"""Command-line flags (upstream: ``cmd/kube-apiserver/app/options``, apiserver ``pkg/server/options``).

Here belong flags under kube-apiserver's names, their completion and their validation.  Not here: the server that is built from
them (``kapi.assembly``).
Start reading with ``options.py`` and ``flags.py``.
"""
