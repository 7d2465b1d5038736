"""The function libraries, one in each module (upstream: cel-go ``ext``, apiserver ``cel/library``).

``kubernetes.py`` lists the libraries of Kubernetes; MATH and ENCODERS are further extensions of cel-go.  The package imports
none of them, since a server that compiles no expression needs none.
"""
