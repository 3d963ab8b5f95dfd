"""Errors that the user can fix, and the function `printable`. Imports no other module of this package."""


class UserError(Exception):
    """Raised for a wrong input, spec or store. The message is one line: what is wrong, where, and how to fix it. `exit_code` is
    the exit code.

    It does not derive from ValueError, so that code which catches ValueError around parsing does not swallow it.
    """

    exit_code = 2


class SpecError(UserError):
    """Raised if a spec cannot be used. The message is one line: where, what is wrong, and how to fix it."""


class StoreError(UserError):
    """Raised if a store, a run or a record cannot be used. The message names it, the reason, and the remedy."""


def printable(text: str, keep: str = "", instead: str | None = None) -> str:
    """Replace all unprintable characters in a text, except those in `keep`, by `instead` (None: an escape such as \\x1b).
    Otherwise a document could control a terminal or a page."""
    return "".join(
        letter if letter.isprintable() or letter in keep else ascii(letter)[1:-1] if instead is None else instead
        for letter in text
    )
