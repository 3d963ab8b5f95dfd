"""One run's ledger: decides which worker may send which call, and when. Part of the llm room; the engine runs it as an actor.

A worker claims each call before it sends it, and settles it afterwards. A claim waits here until one of three things is true:
the log has the answer; the call may be sent (its worst case fits every budget, its time has come, the worker has a slot for it
or soon will); or it can never be sent. The time is always passed in as an argument, so that tests need not wait.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from summhay_ray.llm.budgets import BudgetAccount, Budgets, account
from summhay_ray.llm.excess import USAGE_NOT_CREDIBLE, Doubts
from summhay_ray.llm.membership import Membership
from summhay_ray.llm.messages import Claim, Grant, News, Settlement, WorkerMessage
from summhay_ray.llm.model_queue import Flight, ModelQueue, Waiting
from summhay_ray.llm.models import Limits
from summhay_ray.llm.pacing import Pacer, Slots
from summhay_ray.store import Excess, Fetched, LogIndex, Purpose, Spent

REFRESH_S = 1.0
"""Interval at which the log is read for records of other writers."""

HORIZON_S = 0.25
"""How long before its time a call is granted: long enough for the grant to arrive, short enough for a pause to take effect."""

DRIVER_SILENT_S = 1.2
"""After this time without a sign of life from the driver, it may be dead: no more money is spent."""


class Ledger:
    """The ledger of one run, on top of the index of the store's response log.

    `limits` names every model outside the workers; a model without an entry runs in the workers. With `probing`, the first call
    to each model in `limits` goes alone; if it does not reach the endpoint, the model is given up.
    """

    def __init__(
        self,
        run: str,
        index: LogIndex,
        budgets: Budgets | None = None,
        limits: Mapping[str, Limits] | None = None,
        *,
        probing: bool = False,
    ) -> None:
        self.run = run
        self.index = index
        self.account = BudgetAccount(budgets or Budgets())
        self._doubts = Doubts(budgets.margins if budgets else {})
        self.counts: Counter[str] = Counter()
        self.over_budget = False
        self.next_at: float | None = None
        """When the next waiting call can be granted, if nothing happens before; None: no such time is known."""
        self.touched: set[str] = set()
        """Workers that have news to collect."""
        self._limits = dict(limits or {})
        self._probing = probing
        self._models: dict[str, ModelQueue] = {}
        self._flights: dict[str, Flight] = {}
        self._unended: list[tuple[str, Purpose, int]] = []
        """(writer, purpose, worst case) of calls that are over but whose end could not be written to the log."""
        self._followers: dict[str, list[Waiting]] = {}
        self._outbox: dict[str, list[tuple[int, Grant]]] = {}
        self._slots_out: dict[str, Counter[str]] = {}
        self._keep: dict[str, dict[str, int]] = {}
        self.membership = Membership()
        self.due = False
        """The log is remote and should be read: the caller reads it outside the event loop and passes the result to `reread`."""
        self._driver_heard: float | None = None
        self._stopping = False
        self._refreshed = float("-inf")
        self.index.refresh()
        self._read()

    def take(self, worker: str, message: WorkerMessage, now: float) -> None:
        """Process a worker's message: settlements, 429s, pauses, returned slots and new claims."""
        self.membership.hear(worker, now)
        self._adopt(worker, message)
        if message.reused:
            self.counts["reused"] += message.reused
        for name in message.limited:
            if why := self._model(name).limited(now):
                self._stop(self._model(name), ("quota_exhausted", why))
        for name in message.untimed:
            self._model(name).pacer.round_of_429s(now)
        for name, seconds in message.pauses:
            self._model(name).pacer.pause(now, seconds)
        self.touched.update(self.membership.workers if message.untimed or message.pauses else ())
        for name, n in message.returned.items():
            slots = self._model(name).slots
            if slots is not None:
                slots.take_back(worker, n)
        for settlement in message.settlements:
            self._settle(worker, settlement, now)
        for claim in message.claims:
            self._enter(worker, claim)
        self.tend(now)

    def collect(self, worker: str, now: float) -> News:
        """The worker's news. Grants and slots are handed out once."""
        self.membership.hear(worker, now)
        self.touched.discard(worker)
        return News(
            grants=tuple(self._outbox.pop(worker, ())),
            slots=self._slots_out.pop(worker, {}),
            keep=self._keep.pop(worker, {}),
            paused={
                name: model.pacer.paused_until - now for name, model in self._models.items() if model.pacer.paused_until > now
            },
            stopped={name: model.stopped for name, model in self._models.items() if model.stopped},
            epoch=self.membership.epoch(worker),
            next_s=self.membership.listen_s,
            halted=self._halted(now),
        )

    def sit(self, worker: str, seat: str, now: float) -> None:
        """Give the worker a seat, which only one worker can hold. Its previous holder is dead and is evicted at once."""
        self.leave(self.membership.sit(worker, seat, now), now)

    def beat(self, worker: str, now: float) -> None:
        """Note a sign of life from the worker."""
        self.membership.hear(worker, now)

    def leave(self, worker: str, now: float) -> None:
        """Evict a worker that ends and has written everything."""
        if self.membership.dismiss(worker):
            self.tend(now)

    def stop(self) -> None:
        """Grant no more calls that cost money."""
        self._stopping, self.touched = True, self.touched | self.membership.workers

    def reread(self, fetched: Fetched) -> None:
        """Take in records that were read from a remote log."""
        self.index.take(fetched)
        self._read()

    def recovered(self, worker: str, fetched: Fetched, now: float) -> None:
        """Evict a dying worker, all of whose records are in the log; `fetched` includes them."""
        self.index.take(fetched)
        for writer in self.membership.writers_of(worker):
            self.index.forget_unshipped(writer)
        self._evict({worker})
        self.tend(now)

    def spent(self) -> Spent:
        """What the run has spent, for a commit: settled money, and the worst case of the calls without an end."""
        in_flight = [(flight.claim.writer or flight.worker, flight.claim) for flight in self._flights.values()]
        open_now = [(writer, claim.purpose, claim.worst_micros) for writer, claim in in_flight]
        open_now += [unended for unended in self._unended if self.account.knows(unended[0])]
        return account(self.index.spent_of(self.run), self.account.writers, open_now)

    def _uncertain(self) -> int:
        """The part of `account.spent()` that calls may have cost whose end is unknown."""
        others = (tallies for writer, tallies in self.index.spent_of(self.run).items() if not self.account.knows(writer))
        open_micros = sum(tally.usd_micros - tally.settled_micros for tallies in others for tally in tallies.values())
        return min(self.account.spent(), open_micros + self.account.lost)

    def count(self, numbers: Mapping[str, int]) -> None:
        """Add to the run's counters (cells, judgments, failures, ...)."""
        self.counts.update(numbers)

    def snapshot(self, now: float) -> dict[str, Any]:
        """The current counters, money and models. Only the driver calls this, so that each call is its sign of life."""
        self._driver_heard = now
        uncertain = self._uncertain()
        models = {name: model.numbers(now) for name, model in self._models.items() if model.slots is not None}
        return {
            **self.counts,
            "limited": sum(model.meter.limited for model in self._models.values()),
            "retries": sum(model.meter.retries for model in self._models.values()),
            "spent_micros": self.account.spent() - uncertain,
            "reserved_micros": self.account.reserved(),
            "uncertain_micros": uncertain,
            "in_flight": len(self._flights),
            "over_budget": self.over_budget,
            "stopping": self._stopping,
            "stopped": {name: model.stop_reason for name, model in self._models.items() if model.stopped},
            "models": models,
            "claims": [asdict(claims) for claims in self._doubts.claims()],
        }

    def tend(self, now: float) -> None:
        """Evict dead workers, read the log if it is time, and grant every call that may be granted."""
        self._expire(now)
        if now - self._refreshed >= REFRESH_S:
            self._refreshed = now
            self._refresh()
        self.next_at = None
        for name, model in self._models.items():
            # Even if nothing is queued: a granted call may still lack a slot, and its holder may be done with it.
            self._share_slots(name, model, now)
            if model.again or model.queues:
                self._pump_model(model, now)

    def _pump_model(self, model: ModelQueue, now: float) -> None:
        while model.again:
            if not self._again(model, model.again[0], now):
                return
            model.again.popleft()
        places = deque(model.queues)
        while places:
            place = places.popleft()
            queue = model.queues[place]
            start = self._try(model, place[0], queue[0], now)
            if start is not None:
                if start > now:
                    self._wake_at(start - HORIZON_S)
                    return
                continue
            queue.popleft()
            if queue:
                places.append(place)
            else:
                del model.queues[place]

    def _try(self, model: ModelQueue, worker: str, claim: Claim, now: float) -> float | None:
        """Answer a claim if possible. None: it was answered. A later time: when the model's next call may be sent. `now`: this
        claim must wait, but those of other workers or stages need not."""
        if self._known(model, worker, claim):
            return None
        if self._halted(now) and claim.worst_micros:
            return now
        fits = self.account.fits(claim.purpose, claim.worst_micros)
        if fits == "no":
            self.over_budget = True
            self._say(worker, claim, Grant("budget"))
            return None
        if fits == "wait" or model.granted[worker] >= model.ahead(worker):
            return now
        if self._probing and model.slots is not None and not model.heard and model.granted.total():
            return now
        start = model.pacer.earliest(now, claim.amounts)
        if start > now + HORIZON_S:
            return start
        self._flights[claim.key] = Flight(worker, claim, model.pacer.take(start, claim.amounts))
        self.account.reserve(claim.purpose, claim.worst_micros)
        model.granted[worker] += 1
        model.meter.sent(start)
        self._say(worker, claim, Grant("go", wait_s=start - now, timed=model.pacer.limited))
        return None

    def _again(self, model: ModelQueue, waiting: Waiting, now: float) -> bool:
        """Answer the claim of a call that is granted already; False if its time has not come."""
        worker, claim = waiting.worker, waiting.claim
        flight = self._flights.get(claim.key)
        if flight is None or flight.worker != worker or flight.claim.ticket != claim.ticket:
            self._say(worker, claim, Grant("lost"))
            return True
        if model.stopped:
            self._say(worker, claim, Grant("stopped", error=model.stopped[0], reason=model.stopped[1]))
            return True
        start = model.pacer.earliest(now, claim.amounts)
        if start > now + HORIZON_S:
            self._wake_at(start - HORIZON_S)
            return False
        if claim.again == "late" and flight.permit is not None:
            model.pacer.cancel(flight.permit)
        flight.permit = model.pacer.take(start, claim.amounts)
        if claim.again == "retry":
            model.meter.sent(start)
            model.meter.retries += 1
        self._say(worker, claim, Grant("go", wait_s=start - now, timed=model.pacer.limited))
        return True

    def _enter(self, worker: str, claim: Claim) -> None:
        model = self._model(claim.model)
        if claim.again:
            model.again.append(Waiting(worker, claim))
        elif not self._known(model, worker, claim):
            model.enter(worker, claim)

    def _known(self, model: ModelQueue, worker: str, claim: Claim) -> bool:
        """Handle a claim that needs no call of its own; False if it needs one.

        It is answered if the log has an answer or the model was given up. If a call with its key is in flight, it waits for that.
        """
        location = self.index.answers.get(claim.key)
        if location is not None:
            self.counts["reused"] += 1
            self._say(worker, claim, Grant("answered", location=location))
        elif model.stopped:
            self._say(worker, claim, Grant("stopped", error=model.stopped[0], reason=model.stopped[1]))
        elif claim.key in self._flights:
            self._followers.setdefault(claim.key, []).append(Waiting(worker, claim))
        else:
            return False
        return True

    def _settle(self, worker: str, done: Settlement, now: float) -> None:
        model = self._model(done.model)
        # A worker may come back after its eviction: what it did is read from the log, and its call belongs to another worker.
        flight = self._flights.get(done.key)
        mine = flight is not None and flight.worker == worker
        if flight is not None and mine and self.account.knows(flight.claim.writer or worker):
            writer, purpose = flight.claim.writer or worker, flight.claim.purpose
            self.account.charge(writer, purpose, done.usd_micros)
            if done.unended:
                self._unended.append((writer, purpose, done.usd_micros))
            else:
                self.index.settled(self.run, writer, purpose, done.usd_micros, answers=done.location is not None)
        else:
            self._refresh()
        if done.location is not None:
            if mine or self.index.is_local:  # a remote record of an evicted worker may never arrive
                self.index.answers.setdefault(done.key, done.location)
            self.counts["made"] += 1
            model.answered(now, done.input_tokens, done.output_tokens)
        else:
            self.counts["failed"] += done.sent
        if flight is not None and mine:
            if flight.permit is not None and done.location is not None:
                model.pacer.correct(flight.permit, {"input": done.input_tokens, "output": done.output_tokens})
            self._land(done.key)
        model.heard |= done.location is not None or (done.sent and not done.unheard)
        if done.stop or (self._probing and not model.heard and done.unheard):
            self._stop(model, done.stop or done.unheard or ("", ""))
        if done.excess:
            self._doubt({done.key: done.excess})

    def _stop(self, model: ModelQueue, why: tuple[str, str]) -> None:
        """Give the model up, and answer all claims that wait for it."""
        if model.stopped:
            return
        model.stopped = why
        for (worker, _), queue in model.queues.items():
            for claim in queue:
                self._say(worker, claim, Grant("stopped", error=why[0], reason=why[1]))
        model.queues.clear()
        self.touched.update(self.membership.workers)

    def _land(self, key: str) -> Flight:
        flight = self._flights.pop(key)
        self.account.reserve(flight.claim.purpose, -flight.claim.worst_micros)
        model = self._model(flight.claim.model)
        model.granted[flight.worker] -= 1
        if model.granted[flight.worker] <= 0:
            del model.granted[flight.worker]
        for follower in reversed(self._followers.pop(key, [])):
            if not self._known(model, follower.worker, follower.claim):
                model.enter(follower.worker, follower.claim, first=True)
        return flight

    def _share_slots(self, name: str, model: ModelQueue, now: float) -> None:
        due = model.share_at(now, len(self.membership.workers))
        if due > now:
            self._wake_at(due)
            return
        given, kept = model.share()
        for worker, n in given.items():
            self._slots_out.setdefault(worker, Counter())[name] += n
        for worker, n in kept.items():
            self._keep.setdefault(worker, {})[name] = n
        self.touched.update(given, kept)

    def _halted(self, now: float) -> bool:
        return self._stopping or self._driver_heard is not None and now - self._driver_heard > DRIVER_SILENT_S

    def _wake_at(self, when: float) -> None:
        self.next_at = when if self.next_at is None else min(self.next_at, when)

    def _say(self, worker: str, claim: Claim, grant: Grant) -> None:
        self._outbox.setdefault(worker, []).append((claim.ticket, grant))
        self.touched.add(worker)

    def _adopt(self, worker: str, message: WorkerMessage) -> None:
        writers = self.membership.writes(worker, {claim.writer or worker for claim in message.claims})
        newcomers = {writer for writer in writers if not self.account.knows(writer)}
        if not newcomers:
            return
        self._refresh()
        # In a remote log, a writer's first record is an allowance. It has spent nothing yet, and will report its spending itself.
        spent = self.index.spent_by(self.run)
        for writer in newcomers:
            self.account.adopt(writer, spent.get(writer, {}) if self.index.is_local else {})
        self._read()

    def _refresh(self) -> None:
        if not self.index.is_local:
            self.due = True
            return
        # Living workers also report what they write. Reading it again would cost as much as all other work here.
        self.index.refresh(but=self.account.writers)
        self._read()

    def _read(self) -> None:
        """Take over what the log holds: money spent, and usage that is not credible."""
        self.account.read(self.index.spent_by(self.run))
        self._doubt(self.index.excesses(self.run))

    def _doubt(self, excesses: Mapping[str, Excess]) -> None:
        """Give up the models whose reported usage is not credible too often or by too much."""
        for model, reason in self._doubts.note(excesses):
            self._stop(self._model(model), (USAGE_NOT_CREDIBLE, reason))

    def _expire(self, now: float) -> None:
        dead = self.membership.silent(now)
        if self.index.is_local:
            self._evict(dead)
        else:
            # Their records may still lie on their own disks: the caller recovers them and then calls `recovered`.
            self.membership.dying |= dead

    def _evict(self, dead: set[str]) -> None:
        if not dead:
            return
        writers = self.membership.evict(dead)
        for worker in dead:
            for unsent in (self._outbox, self._slots_out, self._keep):
                unsent.pop(worker, None)
        for model in self._models.values():
            model.forget(dead)
        for key, followers in list(self._followers.items()):
            self._followers[key] = [waiting for waiting in followers if waiting.worker not in dead]
        for writer in writers:
            self.account.disown(writer)
        # The log shows what the dead were charged: the real price of answered calls, the worst case of calls without an end.
        self._refresh()
        self._read()
        open_keys = {key for writer in writers for key in self.index.unanswered(writer)}
        for key in [key for key, flight in self._flights.items() if flight.worker in dead]:
            claim = self._land(key).claim
            # From a remote writer nothing more can come: its allowance covers what it may have written and nobody can read.
            if self.index.is_local and key not in open_keys and key not in self.index.answers:
                self.account.lose(claim.purpose, claim.worst_micros)

    def _model(self, name: str) -> ModelQueue:
        if name not in self._models:
            limits = self._limits.get(name)
            self._models[name] = ModelQueue(Pacer(limits or Limits()), Slots(limits.concurrency) if limits else None)
        return self._models[name]
