"""Every numba function of the package: flat arrays in, arrays out; nothing here imports the rest of hbm_learn."""
