"""The answers log and the records of money."""
