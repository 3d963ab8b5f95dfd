"""Checks a haystack, while it is made or later: outline, queries, what each document says (appendix A.1). A sub-room of synth."""
