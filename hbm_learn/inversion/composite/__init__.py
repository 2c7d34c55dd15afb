"""Composite likelihoods: pseudolikelihood and interaction screening, on blocks of rows."""
