"""The retrieve room."""
