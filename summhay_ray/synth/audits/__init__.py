"""Draws a sample of a synthesis for people, and reads their labels (Tables 4 and 5)."""
