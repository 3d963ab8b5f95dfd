"""Checks a haystack during or after its synthesis: outline, queries, and the insights in each document (appendix A.1)."""
