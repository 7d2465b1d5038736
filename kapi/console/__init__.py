"""The console: a web page that shows the objects and the activity of a server (upstream: none; the Dashboard is another server).

Here belong the files of the page and how they are served.  Not here: any rights - the page calls the API with the credentials of
its user; who wrote what is recorded by ``kapi.registry.environment``.
Start reading with ``pages.py`` and ``static/main.js``.
"""
