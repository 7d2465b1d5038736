"""TLS over pyOpenSSL, whose connections read and write the socket themselves (docs/adr/0011)."""
