"""Tokens of ServiceAccounts: made, verified, watched (upstream: ``pkg/serviceaccount``; KEP-1205, KEP-2799).

Not here: the ``serviceaccounts/token`` endpoint (``kapi.endpoints.reviews.token``) and the controller that makes the
accounts (``kapi.controllers.serviceaccounts``).
Start reading with ``authenticator.py`` and ``issuer.py``.
"""
