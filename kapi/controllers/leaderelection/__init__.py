"""Which of several servers runs the controllers (upstream: client-go ``tools/leaderelection``)."""
