"""The tests of hbm_learn; ``python -m tests.reliability`` counts what they ask."""
