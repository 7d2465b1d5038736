"""The console: a web page that shows the objects and the activity of a server (upstream: none; the Dashboard is another server).

Here belong the files of the page, and their handlers.  Not here: permissions, since the page calls the API with the credentials
of its user; and the recording of the users who wrote objects (``kapi.registry.environment``).
Start reading with ``pages.py`` and ``static/main.js``.
"""
