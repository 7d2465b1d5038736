"""Parts of several resources: combinators of rules, metadata, selectors, pod templates, volumes, printing."""
