"""Maximum likelihood: exact, matrix-free, Monte Carlo."""
