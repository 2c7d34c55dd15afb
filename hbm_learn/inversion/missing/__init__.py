"""Fits of rows with missing cells: the likelihood of what was observed, and stochastic EM beyond enumeration."""
