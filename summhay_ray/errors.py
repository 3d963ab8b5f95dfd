"""Errors that the user can fix, and texts made safe to show. Imports nothing of ours."""

from __future__ import annotations


class UserError(Exception):
    """Wrong input, spec or store. Its message is one line: what is wrong, where, and how to fix it.

    The command line prints the message and exits with `exit_code`. It is not a ValueError, so that code which catches
    ValueError around parsing cannot swallow, say, a store that does not respond.
    """

    exit_code = 2


class SpecError(UserError):
    """The spec cannot be used. The message is one line: where, what is wrong, and how to mend it."""


class StoreError(UserError):
    """The store, one of its runs or one of its records cannot be used; the message says which, why, and how to mend it."""


def printable(text: str, keep: str = "", instead: str | None = None) -> str:
    """The text with every unprintable character replaced but those in `keep`: a document must not control a terminal or page.

    `instead`: what replaces it; None: its escape, such as \\x1b.
    """
    return "".join(
        letter if letter.isprintable() or letter in keep else ascii(letter)[1:-1] if instead is None else instead
        for letter in text
    )
