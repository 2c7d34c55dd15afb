"""What to believe of a fit: intervals, tests, selection, trust."""
