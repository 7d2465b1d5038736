"""Who may approve, sign or attest for a signer (upstream: ``pkg/apis/certificates/authorization``)."""

from __future__ import annotations

from kapi.admission.initializer import Initializer
from kapi.authorization.interface import Attributes as Question
from kapi.request.user import UserInfo


async def may(initializer: Initializer, user: UserInfo, verb: str, signer: str) -> bool:
    """Asks for the signer itself and then for its whole domain (``example.com/*``)."""
    domain = signer.partition("/")[0] + "/*"
    for name in (signer, domain):
        question = Question(user, verb, group="certificates.k8s.io", version="*", resource="signers", name=name)
        if await initializer.is_allowed(question):
            return True
    return False
