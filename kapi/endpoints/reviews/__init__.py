"""Reviews: questions posted as objects that nobody stores (upstream: ``pkg/registry/authorization``, ``authentication``).

Here belong TokenReview, the access reviews, SelfSubjectReview and ``serviceaccounts/token``.  Not here: who answers the
question (``kapi.authentication``, ``kapi.authorization``).
Start reading with ``handlers.py`` and ``question.py``.
"""
