"""The benchmark's public door; see README.md."""
