"""Go's templates, as far as ``-o go-template`` needs them (upstream: ``text/template``).

Here belong tokens, the parse tree, its execution over JSON values, and the functions of templates; all of the language is
there but methods, function values, and complex numbers, which JSON values do not have.  Not here: what kubectl prints when
a template fails (``kapi.cli.printers.template``).
Start reading with ``parser.py`` and ``execution.py``.
"""
