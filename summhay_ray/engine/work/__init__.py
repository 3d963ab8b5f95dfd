"""Queues, prepares and answers items, for every executor."""
