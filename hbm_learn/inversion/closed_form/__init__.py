"""The closed-form diagonal-consistent inversion."""
