"""The function libraries, a module each (upstream: cel-go ``ext``, apiserver ``cel/library``).

``kubernetes.py`` says which of them Kubernetes offers; MATH and ENCODERS are upstream's further extensions.  This package imports
none, as a server that compiles no expression needs none.
"""
