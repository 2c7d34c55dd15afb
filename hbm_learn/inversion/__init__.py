"""Inversion: moments or samples → model. One method a file; ``refinement`` is their registry."""
