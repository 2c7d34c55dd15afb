"""Benchmarks: scripts, one a question, and ``python -m benchmarks``, the races against peers in one table."""
