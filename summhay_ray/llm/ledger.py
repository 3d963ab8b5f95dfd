"""The ledger of a run, which decides which worker may send which call, and when.

A worker claims each call before it sends the call, and settles it afterwards. A claim waits here until the log has the answer,
the call is granted, or it is clear that the call can never be sent. A grant means: send now. It reserves three things in one
step: a slot of the model, a time within the limits per minute, and the money for the worst case, within every budget and the
durable ceiling. The time is always an argument, so that tests need not wait.
"""

import itertools
import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from summhay_ray.llm.budgets import USAGE_NOT_CREDIBLE, Account, Budgets, excess_totals
from summhay_ray.llm.ledger_messages import Claim, Grant, News, Settlement, WorkerMessage
from summhay_ray.llm.model_queue import Cap, Flight, Membership, ModelQueue, Pacer, Wait
from summhay_ray.llm.model_settings import Limits
from summhay_ray.store import RUN, Excess, Fetched, LogIndex, Money, MoneyRecord, Purpose, is_batch

log = logging.getLogger(__name__)

HORIZON_S = 0.25
"""A call is granted at most this many seconds before it is to be sent. That is long enough for the grant to arrive in time, but
short enough for a pause to take effect soon."""

DRIVER_SILENT_S = 3.0
"""If the driver is silent for this long, it may be dead, and no more money is spent."""


class Ledger:
    """The ledger of one run. `index`: the index of the store's log, which was already read.

    `earlier_record`: the newest money record when this session began; None without one. `limits` has an entry for every model
    outside the workers; a model without an entry runs in the workers. `probing`: send the first call to each model in `limits`
    alone, and stop the model if that call does not reach the endpoint.
    """

    def __init__(
        self,
        run: str,
        index: LogIndex,
        budgets: Budgets | None = None,
        limits: Mapping[str, Limits] | None = None,
        *,
        session: int = 0,
        earlier_record: MoneyRecord | None = None,
        probing: bool = False,
    ) -> None:
        self.run = run
        self.index = index
        self.account = Account(budgets or Budgets(), session, Money.of(earlier_record, run, index))
        self._margins = budgets.margins if budgets else {}
        self._excesses: dict[str, Excess] = {}
        """Key -> excess, for answers whose reported usage exceeds their reservation."""
        self.counts: Counter[str] = Counter()
        self.over_budget = False
        self.next_at: float | None = None
        """The time when the next waiting call can be granted, if nothing else happens; None: unknown."""
        self.touched: set[str] = set()
        """Workers that have news to collect."""
        self.to_wake: list[str] = []
        """Workers of `touched` that were not woken yet. Whoever wakes them clears this list."""
        self._limits = dict(limits or {})
        self._probing = probing
        self._models: dict[str, ModelQueue] = {}
        self._flights: dict[str, Flight] = {}
        self._followers: dict[str, list[tuple[str, Claim]]] = {}
        """Key in flight -> (worker, claim) of each further claim that waits for the same answer."""
        self._outbox: dict[str, list[tuple[Claim, Grant]]] = {}
        self.membership = Membership()
        self._driver_heard: float | None = None
        self._stopping = False
        if excesses := index.excesses(run):
            self._note_excess(excesses)

    def take(self, worker: str, message: WorkerMessage, now: float) -> None:
        """Process a worker's message: ended attempts, settlements and claims."""
        self.beat(worker, now)
        for key in message.ended:
            if (flight := self._flights.get(key)) is not None and flight.worker == worker:
                self._model(flight.claim.model).hold(flight, sending=False)
        for settlement in message.settlements:
            self._settle(worker, settlement, now)
        for claim in message.claims:
            model = self._model(claim.model)
            if claim.damaged is not None:
                self.counts["reused"] -= not claim.resumed
                self.index.drop(claim.key, claim.damaged)
            if not self._needs_no_call(model, worker, claim):
                model.enter(worker, claim)
        self.tend(now)

    def collect(self, worker: str, now: float) -> News:
        """Return the worker's news. Each grant is returned once."""
        self.beat(worker, now)
        self.touched.discard(worker)
        return News(
            grants=tuple((claim.ticket, grant) for claim, grant in self._outbox.pop(worker, ())),
            paused={
                name: model.pacer.paused_until - now for name, model in self._models.items() if model.pacer.paused_until > now
            },
            stopped=tuple(name for name, model in self._models.items() if model.stopped),
            evicted=worker in self.membership.evicted,
            next_s=self.membership.listen_s,
            halted=self._is_halted(now),
            stopping=self._stopping,
        )

    def hello(self, worker: str, place: str, now: float) -> None:
        """Register a worker at a place. A place has only one worker, so its previous worker is dead and is evicted now."""
        self.leave(self.membership.hello(worker, place, now), now)

    def beat(self, worker: str, now: float) -> None:
        """Record a heartbeat of the worker."""
        if self.membership.hear(worker, now):
            for model in self._models.values():
                model.hear(worker)

    def leave(self, worker: str, now: float) -> None:
        """Evict a worker that is ending."""
        if self.membership.dismiss(worker):
            self.tend(now)

    def stop(self, now: float) -> None:
        """Grant no more calls that cost money, and tell the workers to send no calls. Only the driver calls this; see
        `snapshot`."""
        self._stopping, self._driver_heard = True, now
        self._touch(self.membership.heard)

    def evict(self, worker: str, fetched: Fetched, now: float) -> None:
        """Evict a dying worker. `fetched`: the log's records that the index lacks, which include all records of the worker."""
        self.index.take(fetched)
        for news in fetched:
            # The fetched records also include answers of other workers. Remember their prices, in case these workers die before
            # they settle.
            for key, _, _, micros in zip(*news.heads["answers"].get(self.run, ()), strict=True):
                if (flight := self._flights.get(key)) is not None:
                    flight.logged_micros = micros
        self._note_excess(self.index.excesses(self.run))
        self._outbox.pop(worker, None)
        for key, followers in list(self._followers.items()):
            self._followers[key] = [follower for follower in followers if follower[0] != worker]
        open_calls = [key for key, flight in self._flights.items() if flight.worker == worker]
        if open_calls:
            log.warning(
                "worker %s is gone with %d calls in flight; those without an answer in the log are asked again",
                worker,
                len(open_calls),
            )
        for key in open_calls:
            claim, logged = self._flights[key].claim, self._flights[key].logged_micros
            if logged is None:
                self.account.lose(key)
            else:
                self.account.charge(claim.purpose, logged, answered=True)
            self._end_flight(key)
        for model in self._models.values():
            self._withdraw(model.forget(worker))
        self.membership.evict(worker)
        self.tend(now)

    def count(self, worker: str, numbers: Mapping[str, int], now: float) -> None:
        """Add a worker's numbers to the run's counters (cells, judgments, failures, ...)."""
        self.beat(worker, now)
        self.counts.update(numbers)

    def resume_batches(self, worker: str, claims: Sequence[Claim], now: float) -> None:
        """Reserve the money of the batches that earlier sessions submitted (`claims`), even if it exceeds the current budgets.

        Releases the money that an earlier session had reserved for batches that it did not submit.
        """
        self.beat(worker, now)
        self.account.resume_batches({claim.key: (claim.purpose, claim.worst_micros) for claim in claims})
        for claim in claims:
            self._flights[claim.key] = Flight(worker, claim, None)
            self._model(claim.model).unsettled += 1

    def fitting(self, worker: str, purpose: Purpose, worst: Sequence[int], now: float) -> list[int]:
        """Return the positions of calls that together fit into the rest of the budgets. `worst`: the worst case of each call."""
        self.beat(worker, now)
        left, _ = self.account.room(purpose)
        chosen = []
        for position, micros in enumerate(worst):
            if micros <= left:
                chosen.append(position)
                left -= micros
        return chosen

    def answered(self, worker: str, keys: Sequence[str], now: float) -> list[str]:
        """Return the keys that have an answer in the log."""
        self.beat(worker, now)
        return [key for key in keys if key in self.index.answers]

    def end_batch(self, worker: str, key: str, charged: int, uncertain: int, now: float) -> None:
        """Settle a batch whose answers are in the log. `charged`: their price. `uncertain`: the most that the batch may have cost
        in addition."""
        self.beat(worker, now)
        purpose = self._flights[key].claim.purpose
        self.account.charge(purpose, charged, answered=True)
        self.account.add_uncertain(purpose, uncertain)
        self._end_flight(key)

    def snapshot(self, now: float) -> dict[str, Any]:
        """Return the current counters, money and models. Only the driver calls this, so each call shows that the driver is
        alive."""
        self._driver_heard = now
        if not self._stopping:
            for model in self._models.values():
                model.wake("driver")
        models = {name: model.numbers(now) for name, model in self._models.items() if model.cap is not None}
        counts = sum((model.counts for model in self._models.values()), Counter[str]())
        return {
            **self.counts,
            "limited": counts["limited"],
            "retries": counts["retries"],
            "spent_micros": self.account.spent[RUN],
            "reserved_micros": self.account.reserved[RUN],
            "uncertain_micros": self.account.uncertain[RUN],
            "in_flight": sum(not is_batch(key) for key in self._flights),
            "over_budget": self.over_budget,
            "stopping": self._stopping,
            "stopped": {
                name: dict(zip(("error", "reason"), model.stopped or (), strict=False))
                for name, model in self._models.items()
                if model.stopped
            },
            "models": models,
            "claims": [asdict(claims) for claims in excess_totals(self._excesses.values(), self._margins)],
            "lost_workers": sorted(self.membership.lost),
        }

    def figures(self, now: float) -> dict[str, dict[str, float]]:
        """Return model -> its figures of this session, and its dollars in the whole run."""
        figures = {}
        for name, model in self._models.items():
            usd = {kind: getattr(self.account, kind)["model", name] / 1e6 for kind in ("spent", "reserved", "uncertain")}
            figures[name] = {**model.numbers(now), **{f"{kind}_usd": amount for kind, amount in usd.items()}}
        return figures

    def note_durable(self, now: float) -> None:
        """Mark the money record that was due as durable, and grant the calls that waited for it."""
        self.account.note_durable()
        for model in self._models.values():
            model.wake("record")
        self.tend(now)

    def tend(self, now: float) -> None:
        """Check for silent workers, and grant every call that may be granted."""
        for worker in self.membership.look(now):
            self._take_back(worker)
            for model in self._models.values():
                self._withdraw(model.silence(worker))
        self.next_at = None
        for name, model in self._models.items():
            if model.queues and model.free():
                if model.short:
                    model.wake_short(lambda stage, name=name: self.account.room((stage, name)))  # type: ignore[misc]
                self._grant_free_slots(model, now)

    def _withdraw(self, claims: Iterable[Claim]) -> Iterable[Claim]:
        """Remove these claims from the ones that a money record must list."""
        for claim in claims:
            self.account.withdraw(claim.key)
        return claims

    def _grant_free_slots(self, model: ModelQueue, now: float) -> None:
        """Grant the model's free slots. If the first claim of a place must wait, the place is set aside."""
        while (free := model.free()) and (place := model.next_place()) is not None:
            worker, stage = place
            claims = model.queues[worker][stage]
            claim = claims[0]
            wait: Wait | None = None
            if self._needs_no_call(model, worker, claim):
                self.account.withdraw(claim.key)
            elif claim.worst_micros and self._is_halted(now):
                wait = "driver"
            elif (fits := self.account.fits(claim.key, claim.purpose, claim.worst_micros)) == "no":
                if not self.over_budget:
                    log.warning("a budget is used up: the worst case of a call to %s does not fit", claim.model)
                self.over_budget = True
                self._say(worker, claim, Grant("budget"))
            elif fits == "wait":
                wait = "money"
            elif fits == "record":
                spare = free - self.account.n_promised(claim.model)
                if spare <= 0 and place not in model.first and not self.account.is_promised(claim.key):
                    # Calls that wait for the record will get all free slots when it is durable.
                    model.sort_in(worker)
                    return
                self.account.want(itertools.islice(claims, max(1, spare)))
                model.set_aside(place, "record")
                continue
            elif (start := model.pacer.earliest(now, claim.amounts)) > now + HORIZON_S:
                when = start - HORIZON_S
                self.next_at = when if self.next_at is None else min(self.next_at, when)
                return
            else:
                permit = model.pacer.take(start, claim.amounts) if model.pacer.limited else None
                flight = self._flights[claim.key] = Flight(worker, claim, permit)
                self.account.reserve(claim.key, claim.purpose, claim.worst_micros)
                model.hold(flight, sending=True)
                model.unsettled += 1
                model.counts["requests"] += 1
                self._say(worker, claim, Grant("go", wait_s=start - now, timed=model.pacer.limited))
            if wait is not None:
                if self.account.n_promised(claim.model):
                    self._withdraw(claims)
                model.set_aside(place, wait)
                continue
            model.remove_first(place)
            if place in model.first:
                following = model.queues[worker][stage][0]
                if not following.first and not self.account.is_promised(following.key):
                    del model.first[place]

    def _needs_no_call(self, model: ModelQueue, worker: str, claim: Claim) -> bool:
        """Handle a claim that needs no call. Returns False if the claim needs a call.

        A claim is answered here if the log has its answer or if the model was stopped. If a call with the same key is in flight,
        the claim waits for that call.
        """
        # Use `in` first: most keys are missing, and looking up a missing key would raise and catch an exception.
        if claim.key in self.index.answers:
            self.counts["reused"] += not claim.resumed
            self._say(worker, claim, Grant("answered", location=self.index.answers[claim.key]))
        elif model.stopped:
            self._say(worker, claim, Grant("stopped", error=model.stopped[0], reason=model.stopped[1]))
        elif claim.key in self._flights:
            self._followers.setdefault(claim.key, []).append((worker, claim))
        elif claim.parks:
            self._say(worker, claim, Grant("parked"))
        else:
            return False
        return True

    def _settle(self, worker: str, done: Settlement, now: float) -> None:
        model, flight = self._model(done.model), self._flights.get(done.key)
        # An evicted worker may come back. Its call already counts as uncertain, and may belong to another worker now.
        mine = flight is not None and flight.worker == worker
        if done.location is not None:
            if done.key not in self.index.answers:
                self.index.answers[done.key] = done.location
            self.counts["made"] += 1
            model.note_answer(done.input_tokens, done.output_tokens)
        elif done.again:
            model.counts["retries"] += done.sent
            model.counts["fallbacks"] += done.fell_back
        else:
            self.counts["failed"] += done.sent
        if flight is not None and mine:
            if done.doubtful:
                self.account.add_uncertain(flight.claim.purpose, done.usd_micros)
            else:
                self.account.charge(flight.claim.purpose, done.usd_micros, answered=done.location is not None)
            if flight.permit is not None and done.location is not None:
                model.pacer.correct(flight.permit, {"input": done.input_tokens, "output": done.output_tokens})
            self._end_flight(done.key, sent=done.sent)
        # Send fewer calls after a 429, and none while the provider demands a pause.
        if done.limited and (why := model.note_429(now)):
            self._stop(done.model, ("quota_exhausted", why))
        if done.pause_s is not None:
            model.pacer.pause(now, done.pause_s)
        elif done.limited:
            model.pacer.round_of_429s(now)
        if done.limited or done.pause_s is not None:
            self._touch(self.membership.heard)
        model.reached |= done.location is not None or (done.sent and not done.unreached)
        if done.stop or (self._probing and not model.reached and done.unreached and not done.again):
            self._stop(done.model, done.stop or done.unreached or ("", ""))
        if done.excess:
            self._note_excess({done.key: done.excess})

    def _stop(self, name: str, why: tuple[str, str]) -> None:
        """Stop the model, and answer all claims that wait for it."""
        model = self._model(name)
        if model.stopped:
            return
        log.warning("%s is given up: %s", name, why[0])
        model.stopped = why
        for worker in list(model.queues):
            for claim in self._withdraw(model.drop(worker)):
                self._say(worker, claim, Grant("stopped", error=why[0], reason=why[1]))
        self._touch(self.membership.heard)

    def _end_flight(self, key: str, *, sent: bool = True) -> None:
        """End a call in flight. If it was not sent, it does not count for the limits."""
        flight = self._flights.pop(key)
        model = self._model(flight.claim.model)
        self.account.release(key)
        model.hold(flight, sending=False)
        model.unsettled -= 1
        if not sent:
            model.counts["requests"] -= 1
            if flight.permit is not None:
                model.pacer.cancel(flight.permit)
        for worker, waiting in reversed(self._followers.pop(key, [])):
            if not self._needs_no_call(model, worker, waiting):
                model.enter(worker, waiting._replace(first=True))

    def _take_back(self, worker: str) -> None:
        """Take back the grants that a silent worker has not collected, since their calls were not sent."""
        kept = []
        for claim, grant in self._outbox.pop(worker, []):
            if grant.state == "go":
                self._end_flight(claim.key, sent=False)
                self._model(claim.model).enter(worker, claim._replace(first=True))
            else:
                kept.append((claim, grant))
        if kept:
            self._outbox[worker] = kept

    def _is_halted(self, now: float) -> bool:
        return self._stopping or self._driver_heard is not None and now - self._driver_heard > DRIVER_SILENT_S

    def _say(self, worker: str, claim: Claim, grant: Grant) -> None:
        self._outbox.setdefault(worker, []).append((claim, grant))
        self._touch([worker])

    def _touch(self, workers: Iterable[str]) -> None:
        """Mark these workers as having news."""
        self.to_wake += [worker for worker in workers if worker not in self.touched]
        self.touched.update(workers)

    def _note_excess(self, excesses: Mapping[str, Excess]) -> None:
        """Stop the models whose reported usage exceeds the reservation too often or by too much."""
        # Keep the first report of an answer.
        self._excesses = {**excesses, **self._excesses}
        for totals in excess_totals(self._excesses.values(), self._margins):
            if totals.stopped:
                self._stop(totals.model, (USAGE_NOT_CREDIBLE, str(totals)))

    def _model(self, name: str) -> ModelQueue:
        if name not in self._models:
            limits = self._limits.get(name)
            cap = Cap(limits.concurrency) if limits else None
            self._models[name] = ModelQueue(
                Pacer(limits or Limits()), cap, self.membership.silent, probing=self._probing and cap is not None
            )
        return self._models[name]
