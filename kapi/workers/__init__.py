"""Several processes that serve one port from one store (``--workers``).

kube-apiserver uses all cores by goroutines; Python needs a process for each. Here belongs what starts, watches and replaces them:
``supervisor.py`` is the parent, which holds the listening socket, the data directory and the embedded store and serves nothing;
``worker.py`` is what it starts, an ordinary server on that socket and that store. What several servers on one store need from
each other (leases, elections, confirmed reads) is not here: they are several servers like any others.
"""
