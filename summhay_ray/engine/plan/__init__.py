"""Counts the calls, tokens and dollars of a run, before its first call and while it runs."""
