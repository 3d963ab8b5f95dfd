"""Errors that the user can fix. Imports nothing of ours."""

from __future__ import annotations


class UserError(Exception):
    """Wrong input, spec or store. Its message is one line: what is wrong, where, and how to fix it.

    The command line prints the message and exits with `exit_code`. It is not a ValueError, so that code which catches
    ValueError around parsing cannot swallow, say, a store that does not respond.
    """

    exit_code = 2
