"""Sends requests: directly by HTTP, through litellm, or to a model in this process."""
