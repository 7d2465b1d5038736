"""How ID tokens may be signed (upstream: go-oidc, ``jose.go``).  Apart from what verifies them, as flags are checked by it."""

from __future__ import annotations

ALGORITHMS = ("RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512")
