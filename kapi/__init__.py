"""A Kubernetes API server in Python, on Twisted, over a Redis or Valkey stream (upstream: ``cmd/kube-apiserver``).

Each package below stands for one upstream package and says so in its own docstring; docs/architecture.rst lists them from
the top layer down.  Here lie only the modules that know all of them: ``app`` (start, run, stop), ``tap`` (twistd, tac
file, console script), ``foundation`` (data directory and store, opened while the rest is imported) and ``clock``.
Start reading with ``app.py`` and ``assembly/server.py``.
"""
