"""Data: tables → codes → moments. What a table became once its space is known."""
