"""The console: a page that shows what a server holds and does (upstream: none; its Dashboard is a server of its own).

Here belong the files of the page and how they are served.  Not here: rights of its own - the page asks the API in the name of
who looks at it; who wrote what is noted by ``kapi.registry.authors``.
Start reading with ``pages.py`` and ``static/main.js``.
"""
