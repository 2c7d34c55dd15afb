"""Inversion: moments or samples → model. One method a file."""
