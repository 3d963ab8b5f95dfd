"""The errors that a store raises."""

from summhay_ray.errors import StoreError


class DamagedRecord(StoreError):
    """A record of the store was changed, does not fit its schema, or was replaced by something like a link.

    `flaw`: what is damaged, and how to mend it. With `uri`, the message also names the command that reads the whole store there.
    """

    exit_code = 1

    def __init__(self, flaw: str, uri: str = "") -> None:
        super().__init__(f"{flaw}; run summhay doctor --store {uri}" if uri else flaw)
        self.flaw = flaw


class NoCredentials(StoreError):
    """This machine has no credentials for the bucket; another machine, such as a cluster node, may have them."""


class StoreUnavailable(StoreError):
    """The store did not answer within the retry time, or its disk is full. The request itself is valid."""

    exit_code = 1


class Superseded(StoreError):
    """Another driver has taken the run over. The commits of this driver stay valid."""

    exit_code = 1
