"""ID tokens of OpenID Connect providers (upstream: apiserver ``plugin/pkg/authenticator/token/oidc``, KEP-3331).

Here belong a provider's discovery and keys, the verification of its tokens, and the mapping of claims to a user.
Start reading with ``authenticator.py`` and ``provider.py``.
"""

#: how ID tokens may be signed (upstream: go-oidc, ``jose.go``); here, since flags are checked without what verifies them
ALGORITHMS = ("RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512")
