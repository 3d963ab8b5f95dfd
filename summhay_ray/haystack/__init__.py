"""The haystack room."""
