"""The core server: installs the built-in resources (upstream: ``pkg/controlplane/instance.go``, InstallAPIs).

Here belong the lists of which server of the chain serves which built-in resource, and the names of special endpoints.  Not
here: the resources themselves (``kapi.resources``) and their endpoints (``kapi.endpoints``).
Start reading with ``install.py`` and ``handlers.py``.
"""
