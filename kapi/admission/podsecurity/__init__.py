"""PodSecurity: the Pod Security Standards, enforced by namespace (KEP 2579; upstream: k8s.io/pod-security-admission)."""
