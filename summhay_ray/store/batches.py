"""The records of the batches that a run submits to a provider's batch API.

`runs/RUN/batches/TOKEN.json` is written before the submission. It has the model, the stage, and the keys of the requests with
their worst cases. `TOKEN.id.json` has the provider's id of the batch. `TOKEN.end.json` records how the batch ended; it is written
when all answers are in the log. No file is changed later. A batch without an end is open: the run's next driver continues it, on
any machine.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import Field
from typing_extensions import TypedDict

from summhay_ray.store.files import Files
from summhay_ray.store.names import DamagedRecord
from summhay_ray.store.records import Amount, Count, Name, read_checked, with_hash

BATCH_KEY = "batch/"
"""The prefix of a batch's key in the money records. The rest of the key is the batch's token."""

Text = Annotated[str, Field(min_length=1, max_length=1000)]


def is_batch(key: str) -> bool:
    """Return whether a key in a money record belongs to a batch."""
    return key.startswith(BATCH_KEY)


class _Body(TypedDict):
    """The record of a batch. `requests`: (key, worst case in micro-dollars, tokens of the prompt, maximum tokens of the answer)
    of each.

    `began`: seconds since 1970, by the driver's clock. `price_factor`: the batch's price as a fraction of the standard price.
    """

    run: Name
    token: Name
    model: Text
    stage: str
    price_factor: Amount
    began: Amount
    requests: list[tuple[str, Count, Count, Count]]


class _Sent(TypedDict):
    """The provider's id of a batch."""

    id: Text


class _End(TypedDict):
    """The end of a batch, and the number of its answers."""

    how: str
    answered: Count


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """A recorded batch; see `_Body`."""

    run: str
    token: str
    model: str
    stage: str
    price_factor: float
    began: float
    requests: Sequence[tuple[str, int, int, int]]
    id: str = ""
    """The provider's id; empty if it is not known."""
    how: str = ""
    """How the batch ended: ended, expired, cancelled, failed or unsent; empty while it is open."""
    answered: int = 0
    """Number of answers, if the batch has ended."""

    @property
    def key(self) -> str:
        """The batch's key in the money records."""
        return f"{BATCH_KEY}{self.token}"

    @property
    def worst_micros(self) -> int:
        """The batch's maximum cost, in micro-dollars."""
        return sum(worst for _, worst, _, _ in self.requests)


class BatchRecords:
    """The records of the batches of one run."""

    def __init__(self, files: Files, run_id: str) -> None:
        self._files, self._run = files, run_id
        self._folder = f"runs/{run_id}/batches"

    def write(self, record: BatchRecord) -> None:
        """Record a batch before it is submitted. Raises StoreError, OSError."""
        names = ("run", "token", "model", "stage", "price_factor", "began", "requests")
        self._create(f"{record.token}.json", {name: getattr(record, name) for name in names})

    def submitted(self, token: str, batch_id: str) -> None:
        """Record the provider's id of a batch."""
        self._create(f"{token}.id.json", {"id": batch_id})

    def ended(self, token: str, how: str, answered: int) -> None:
        """Record that a batch has ended, and that all its answers are in the log."""
        self._create(f"{token}.end.json", {"how": how, "answered": answered})

    def all(self, *, only_open: bool = False) -> list[BatchRecord]:
        """Return the batches, oldest first. Raises DamagedRecord."""
        names = {name.rpartition("/")[2] for name in self._files.names(self._folder, ".json")}
        tokens = [name.removesuffix(".json") for name in names if name.count(".") == 1]
        records = []
        for token in tokens:
            is_over = f"{token}.end.json" in names
            if is_over and only_open:
                continue
            body = self._read(f"{token}.json", _Body)
            if body["run"] != self._run or body["token"] != token:
                raise self._damaged(f"{token}.json")
            sent = self._read(f"{token}.id.json", _Sent)["id"] if f"{token}.id.json" in names else ""
            end: Mapping[str, Any] = self._read(f"{token}.end.json", _End) if is_over else {}
            records.append(BatchRecord(**body, id=sent, **end))
        return sorted(records, key=lambda record: (record.began, record.token))

    def counts(self) -> dict[str, Any] | None:
        """Return how many batches are `submitted`, `in_progress` and `done`, or None without batches. `requests`: the requests of
        batches in progress. `answered`: the answered requests of batches that are done. `oldest`: when the oldest batch in
        progress was submitted (UTC, ISO 8601)."""
        records = [record for record in self.all() if record.how != "unsent"]
        if not records:
            return None
        # The records are in the order of submission.
        running, done = ([record for record in records if bool(record.how) is is_done] for is_done in (False, True))
        return {
            "submitted": len(records),
            "in_progress": len(running),
            "done": len(done),
            "requests": sum(len(record.requests) for record in running),
            "answered": sum(record.answered for record in done),
            "oldest": datetime.fromtimestamp(running[0].began, UTC).isoformat(timespec="seconds") if running else None,
        }

    def _create(self, name: str, body: Mapping[str, Any]) -> None:
        self._files.create(f"{self._folder}/{name}", with_hash(body))

    def _read(self, name: str, kind: Any) -> Any:
        body = read_checked(self._files.read(f"{self._folder}/{name}", is_large=True), kind)
        if body is None:
            raise self._damaged(name)
        return body

    def _damaged(self, name: str) -> DamagedRecord:
        where = self._files.where(f"{self._folder}/{name}")
        return DamagedRecord(f"{where} is damaged; put it back from a copy: without it, a batch is paid again", self._files.uri)
