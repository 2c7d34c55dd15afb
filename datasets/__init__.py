"""The data sets that ship with the package, which knows this folder as ``hbm_learn.shipped``."""
