"""Command-line flags (upstream: ``cmd/kube-apiserver/app/options``, apiserver ``pkg/server/options``).

Here belong flags under kube-apiserver's names, what completes them and what is wrong with them.  Not here: what is made of
them (``kapi.assembly``).
Start reading with ``options.py`` and ``flags.py``.
"""
