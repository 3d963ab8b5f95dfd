"""Makes a haystack: outline, placement of insights, documents (SummHay, section 3)."""
