"""Reviews: requests posted as objects that are not stored (upstream: ``pkg/registry/authorization``, ``authentication``).

Here belong TokenReview, the access reviews, SelfSubjectReview and ``serviceaccounts/token``.  Not here: authenticators and
authorizers (``kapi.authentication``, ``kapi.authorization``).
Start reading with ``handlers.py`` and ``posted_review.py``.
"""
