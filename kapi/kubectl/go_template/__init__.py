"""Go's templates, for ``-o go-template`` (upstream: ``text/template``).

Here belong tokens, the parse tree, its execution over JSON values, and the functions of templates.  The language is complete
except for methods, function values and complex numbers, which JSON values do not have.  Not here: kubectl's output when
a template fails (``kapi.kubectl.printers.template``).
Start reading with ``parser.py`` and ``execution.py``.
"""
