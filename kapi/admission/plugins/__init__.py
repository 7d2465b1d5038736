"""The built-in admission plugins, one module each; ``make(initializer, configuration)`` makes one."""
