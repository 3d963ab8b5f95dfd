"""Errors that a person can mend: each says in one line what is wrong, where, and how. Imports nothing of ours."""

from __future__ import annotations


class UserError(Exception):
    """Wrong input, spec or store; the command line prints the message and exits with `exit_code`.

    No ValueError: whoever expects one of a value that it parses must not hide a store that does not answer.
    """

    exit_code = 2
