"""Reads a stored run, even while it is running: status, scores, explanations, samples. No calls."""
