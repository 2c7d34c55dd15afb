"""Files: models and tables on disk."""
