"""Plugins: separate programs that the server calls over gRPC on a unix socket (upstream: apiserver ``kmsv2``,
``pkg/serviceaccount/externaljwt``).

Here belong gRPC calls and the encoding of messages, without generated code.  Not here: the services themselves, namely the KMS
plugin of encryption at rest (``kapi.store.encryption.plugin``) and the signer of ServiceAccount tokens
(``kapi.authentication.service_account.signer``).
Start reading with ``calls.py`` and ``wire.py``.
"""
