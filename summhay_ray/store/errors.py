"""What can be wrong with a store. Part of the store room."""

from summhay_ray.errors import UserError


class StoreError(UserError):
    """The store, a run in it or a record of it is not usable; the message says which, why and how to mend it."""


class Damaged(StoreError):
    """A block of a run's rows is absent or damaged."""


class NoCredentials(StoreError):
    """This machine has no credentials for the place; another one, such as a cluster's node, may have some."""


class StoreUnavailable(StoreError):
    """The place does not answer for as long as it is worth trying, or has no room; nothing is wrong with what was asked."""

    exit_code = 1


class Superseded(StoreError):
    """Another driver has the run. What this one committed stands."""

    exit_code = 1
