"""The objects that every cluster has from the start: namespaces, the kubernetes Service, its range, priority classes."""
