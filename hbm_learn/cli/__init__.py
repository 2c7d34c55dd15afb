"""The command ``hbm-learn``."""

from hbm_learn.cli.main import main

__all__ = ["main"]
