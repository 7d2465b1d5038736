"""The test kit, public.

``process``: a real kapi in a process of its own.  ``memory_api``: an API server in memory, asked with ``http``.
"""
