"""Subresources that connect a client to a node, a pod or a service: log, exec, attach, portforward, proxy."""
