"""Elects leaders from LeaseCandidates (KEP-4355; upstream: ``pkg/controlplane/controller/leaderelection``).

``reconcile`` decides, ``controller`` reads and writes.  Which of several servers does so, ``kapi.controllers.leaderelection``
says.
"""
