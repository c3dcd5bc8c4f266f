"""The timed machine: one SimPy process per hardware component."""
