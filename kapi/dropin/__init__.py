"""Programs with the names and flags of kube-apiserver and etcd, for tools that start these themselves (upstream:
``cmd/kube-apiserver``, etcd's ``server/etcdmain``, the binaries of ``setup-envtest``).

controller-runtime's envtest, fabric8's kube-api-test, jenvtest and Rust's envtest start them unchanged, and so does the
command line of a static pod that kubeadm made.  Here belongs the translation between those programs and kapi.  Not here:
features of kapi itself.  Start reading with ``kube_apiserver.py`` and ``etcd.py``.
"""
