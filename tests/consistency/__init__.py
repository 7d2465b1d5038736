"""kapi under faults: one history explains every answer.

What etcd's robustness tests are for etcd.  Clients write, read and watch at random (``workers``, ``watchers``) while
processes are killed and stopped, networks cut and disks filled (``faults``); a recorder notes the store's history from
outside of kapi; afterwards ``checker`` explains every answer by that history or reports a violation.

``python -m tests.consistency --help`` runs it for as long as one likes; start reading at ``round_``.
"""
