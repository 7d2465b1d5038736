"""Elects leaders from LeaseCandidates (KEP-4355; upstream: ``pkg/controlplane/controller/leaderelection``).

``reconcile`` decides, ``controller`` reads and writes.  Which of several servers runs it is decided by
``kapi.controllers.leaderelection``.
"""
