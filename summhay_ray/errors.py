"""Errors that the user can fix, and `printable` texts. Imports no other module of this package."""


class UserError(Exception):
    """Wrong input, spec or store. Its message is one line: the fault, the place, and the remedy; the exit code is `exit_code`.

    It does not derive from ValueError: code that catches ValueError around parsing must not swallow it.
    """

    exit_code = 2


class SpecError(UserError):
    """The spec cannot be used. The message is one line: the place, the fault, and the remedy."""


class StoreError(UserError):
    """The store, one of its runs or one of its records cannot be used; the message gives the object, the reason, and the
    remedy."""


def printable(text: str, keep: str = "", instead: str | None = None) -> str:
    """The text with all unprintable characters, except those in `keep`, replaced by `instead` (None: an escape such as \\x1b): a
    document must not control a terminal or page."""
    return "".join(
        letter if letter.isprintable() or letter in keep else ascii(letter)[1:-1] if instead is None else instead
        for letter in text
    )
