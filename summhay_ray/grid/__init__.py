"""The grid room."""
