"""``python -m hbm_learn`` is ``hbm-learn``."""

import sys

from hbm_learn.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
