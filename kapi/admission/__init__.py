"""Admission control: plugins that change or refuse a write after authorization (upstream: apiserver ``pkg/admission``).

Here belong the plugin interface, the chain, its configuration, and the plugins, built-in and dynamic (``plugins``,
``podsecurity``, ``quota``, ``policy``, ``webhook``).  Not here: validation of a single object by its own fields
(``kapi.resources``) and the point at which a write calls the chain (``kapi.registry``).
Start reading with ``interface.py`` and ``chain.py``.
"""
