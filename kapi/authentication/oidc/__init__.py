"""ID tokens of OpenID Connect providers (upstream: apiserver ``plugin/pkg/authenticator/token/oidc``, KEP-3331).

Here belong a provider's discovery and keys, the verification of its tokens, and the mapping of claims to a user.
Start reading with ``authenticator.py`` and ``provider.py``.
"""
