"""How fast warpsim is, against the goals set for it: `python -m tests.benchmarks`. Not part of the tests."""
