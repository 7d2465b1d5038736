"""What every cluster has from its first second on: namespaces, the kubernetes Service, its range, priority classes."""
