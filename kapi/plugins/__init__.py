"""Plugins: separate programs that the server calls over gRPC on a unix socket (upstream: apiserver ``kmsv2``,
``pkg/serviceaccount/externaljwt``).

Here belong calls and messages, without generated code.  Not here: what is asked, which those who ask know: the KMS plugin of
encryption at rest (``kapi.store.encryption.plugin``), the signer of ServiceAccount tokens
(``kapi.authentication.service_account.signer``).
Start reading with ``calls.py`` and ``wire.py``.
"""
