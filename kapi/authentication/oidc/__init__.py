"""ID tokens of OpenID Connect providers (upstream: apiserver ``plugin/pkg/authenticator/token/oidc``, KEP-3331).

Here belong a provider's discovery and keys, the verification of its tokens, and the mapping of claims to a user.
Start reading with ``authenticator.py`` and ``provider.py``.
"""

#: algorithms of signatures (upstream: go-oidc, ``jose.go``); here, so that the check of flags need not import the verification
ALGORITHMS = ("RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512")
