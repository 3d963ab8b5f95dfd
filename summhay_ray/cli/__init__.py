"""The command line: parses arguments, calls `summhay_ray.api` and prints results."""

from summhay_ray.cli.app import main

__all__ = ["main"]
