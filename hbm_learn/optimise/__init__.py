"""Optimisers that know nothing of spins: functions in, certificates out."""
