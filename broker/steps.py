"""Long requests are handled in steps, so that they do not keep the others waiting.

A handler whose work grows with its request, or with what the broker holds, is a generator. It yields after each element
(a step) and returns the response:

    def find_coordinator(broker, request, call) -> Steps[FindCoordinatorResponse]:
        found = []
        for key in request.coordinator_keys:
            found.append(_find(broker, key))
            yield
        return FindCoordinatorResponse(found)

The connection takes steps for FIRST_SLICE_NS at most (see Turns). Most requests are done by then. The rest of a longer
one is done here, in slices between the turns of the event loop: one slice per turn, in rotation. Anything may happen
between two steps: a handler looks things up again after a `yield`. One that can do nothing until another request is
done yields WAIT, and its slice ends there.

A handler that has to wait for something else than its turn, a disk for instance, yields a Pause. Its next step is
taken when the pause is over; waiting alone does not make a long request of it. If the client hangs up meanwhile, there
is no next step: what must happen all the same is done by whoever ends the pause.

Reading a request with many elements, and encoding an answer with many, cannot be done in steps. A thread does it. So
that the event loop gets the interpreter back soon, the thread shortens the switch interval for that time.

The long requests of all clients together must fit into memory. So their elements are counted, from the moment when a
request is read until its answer is sent. While MAX_READ_ELEMENTS are in memory, no other long request is read: it
waits as the bytes that came. While MAX_ELEMENTS are in memory, the first request in the line gets all slices until it
is done.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Generator
from functools import partial
from time import monotonic_ns
from typing import Generic, Protocol, TypeVar

from kohort.broker.call import Call, NoAnswer, Parked
from kohort.broker.worker import Post, Work, Worker, quick_switches
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.wire import Message

logger = logging.getLogger(__name__)

Response = TypeVar("Response")
Result = TypeVar("Result")

Steps = Generator[None, None, Response]
WaitingSteps = Generator["bool | Pause | None", None, Response]  # may yield WAIT, or a Pause
WAIT = True

ELEMENTS_AT_ONCE = 2_000  # a request with more is read by a thread
FIRST_SLICE_NS = 5_000_000
SLICE_NS = 5_000_000
TURN_NS = 10_000_000
TIGHT_FIRST_SLICE_NS = 500_000  # while MAX_ELEMENTS are in memory: enough for every short request
MAX_READ_ELEMENTS = 500_000
MAX_ELEMENTS = 1_000_000  # some 500 bytes each
NS_PER_ELEMENT = 1_000  # of an answer; no handler is quicker
MAX_ELEMENTS_OF_ONE = 200_000  # with its answer; a request that takes longer is searching, and holds little
MAX_FINISHED_ALONE = 100  # while more requests wait, those whose clients have hung up are dropped

Answer = Message | NoAnswer | Parked  # PARKED: the handler has kept the call after its last step


class Pause:
    """What a handler waits for. It may be over before anybody asks."""

    __slots__ = ("_waiting", "is_over")

    def __init__(self) -> None:
        self.is_over = False
        self._waiting: list[Work] = []

    def then(self, go_on: Work) -> None:
        """Call `go_on` when the pause is over, or at once if it is."""
        if self.is_over:
            go_on()
        else:
            self._waiting.append(go_on)

    def end(self) -> None:
        self.is_over = True
        waiting, self._waiting = self._waiting, []
        for go_on in waiting:
            go_on()


def take_steps(steps: WaitingSteps[Response], for_ns: int) -> Done[Response] | Pause | bool | None:
    """Take steps until that time is over, or until the handler makes a pause or yields WAIT. None: there are more."""
    until = monotonic_ns() + for_ns
    try:
        while monotonic_ns() < until:
            if (waits_for := next(steps)) is not None:
                return waits_for
    except StopIteration as end:
        return Done(end.value)
    return None


def all_steps(steps: WaitingSteps[Response]) -> Response:
    """Take all steps at once, where nobody waits."""
    while True:
        taken = take_steps(steps, SLICE_NS)
        if isinstance(taken, Done):
            return taken.response
        assert not isinstance(taken, Pause) or taken.is_over, "nothing ends this pause"


class OneAtATime:
    """Lets one piece of work through at a time. The others wait, for it may need much memory."""

    __slots__ = ("_is_busy",)

    def __init__(self) -> None:
        self._is_busy = False

    def take(self, steps: Steps[Response]) -> WaitingSteps[Response]:
        while self._is_busy:
            yield WAIT
        self._is_busy = True
        try:
            return (yield from steps)
        finally:
            self._is_busy = False


class Done(Generic[Response]):
    """The last step was taken."""

    __slots__ = ("response",)

    def __init__(self, response: Response) -> None:
        self.response = response


class Turns:
    """What requests may take of a turn of the event loop, those of all connections together.

    It counts for frames that come together, and for the first steps of a request. One client with many connections must
    not take a slice for each of them: beyond TURN_NS they wait for the next turn, in the order in which they came.
    """

    def __init__(self, call_soon: Callable[[Work], object]) -> None:
        self._call_soon = call_soon
        self._has_begun = False
        self._ends_ns = 0
        self._waiting: deque[Work] = deque()

    def ends_ns(self) -> int:
        """When the work of this turn has to end, on the steady clock."""
        if not self._has_begun:
            self._has_begun = True
            self._ends_ns = monotonic_ns() + TURN_NS
            self._call_soon(self._next)
        return self._ends_ns

    def wait(self, go_on: Work) -> None:
        self._waiting.append(go_on)
        self.ends_ns()  # there will be a next turn

    def _next(self) -> None:
        self._has_begun = False
        if self._waiting:
            until = self.ends_ns()
            for _ in range(len(self._waiting)):
                if monotonic_ns() >= until:
                    break
                self._waiting.popleft()()


class Sender(Protocol):
    """A connection. It handles one request at a time."""

    is_closed: bool
    elements: int  # of its long request, and of the answer to it, as far as they are in memory


class LongRequest:
    """The rest of the steps of one request."""

    __slots__ = ("call", "failed", "finished", "sender", "steps")

    def __init__(
        self,
        sender: Sender,
        call: Call,
        steps: WaitingSteps[Answer],
        finished: Callable[[Answer], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self.sender = sender
        self.call = call
        self.steps = steps
        self.finished = finished
        self.failed = failed


class LongRequests:
    """All long requests of the broker, and the thread that reads and encodes for them."""

    def __init__(
        self,
        call_soon: Callable[[Work], object],
        post: Post,
        measure: Callable[[Call, int], None],
        *,
        switches_quickly: bool = True,
    ) -> None:
        """`measure` is told how many nanoseconds a slice took. `switches_quickly`: see worker.py."""
        self._switches_quickly = switches_quickly
        self._call_soon = call_soon
        self._measure = measure
        self._waiting: deque[LongRequest] = deque()
        self._is_called = False  # the event loop is going to call `_turn`
        self._worker = Worker("long requests", post)
        self.elements = 0  # of all senders
        self._unread: OrderedDict[Sender, tuple[int, Work]] = OrderedDict()  # elements at most, what reads the request

    @property
    def first_slice_ns(self) -> int:
        """How long a request may take before it becomes a long one."""
        return FIRST_SLICE_NS if self.elements < MAX_ELEMENTS else TIGHT_FIRST_SLICE_NS

    def read(
        self,
        sender: Sender,
        at_most: int,
        decode: Callable[[], Result],
        finished: Callable[[Result], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """Decode a request of `at_most` so many elements in the thread, as soon as there is room for them."""
        self._unread[sender] = at_most, lambda: self.in_thread(decode, finished, failed)
        self._read_next()

    def _read_next(self) -> None:
        while self._unread:
            sender, (at_most, begin) = next(iter(self._unread.items()))
            if self.elements and self.elements + at_most > MAX_READ_ELEMENTS:
                return
            del self._unread[sender]
            self._grow(sender, at_most)
            begin()

    def _grow(self, sender: Sender, count: int) -> None:
        count = min(count, MAX_ELEMENTS_OF_ONE - sender.elements)
        sender.elements += count
        self.elements += count

    def leave(self, sender: Sender) -> None:
        """Its request is answered, or waits for other clients and is counted elsewhere, or the connection is closed."""
        self._unread.pop(sender, None)
        self.elements -= sender.elements
        sender.elements = 0
        self._read_next()

    def add(self, request: LongRequest) -> None:
        self._waiting.append(request)
        if not self._is_called:
            self._is_called = True
            self._call_soon(self._turn)

    def _turn(self) -> None:
        """Take a slice of one request. If its slice is not used up, take slices of the next ones."""
        until = monotonic_ns() + SLICE_NS
        try:
            for _ in range(len(self._waiting)):  # none if `stop` was called meanwhile
                self._take_slice(self._waiting.popleft(), until - monotonic_ns())
                if monotonic_ns() >= until:
                    break
        finally:  # even after an exception: the other requests get their turns
            self._is_called = bool(self._waiting)
            if self._is_called:
                self._call_soon(self._turn)

    def _take_slice(self, request: LongRequest, for_ns: int) -> None:
        began = monotonic_ns()
        try:
            if request.call.is_gone and self._may_drop(request):
                request.steps.close()
            else:
                taken = take_steps(request.steps, for_ns)
                if isinstance(taken, Done):
                    request.finished(taken.response)
                else:
                    request.call.is_long = request.call.is_long or not isinstance(taken, Pause)
                    if not request.sender.is_closed:  # the elements of a closed one count no longer
                        self._grow(request.sender, (monotonic_ns() - began) // NS_PER_ELEMENT)
                    self._line_up(request, taken)
        except Exception as problem:
            request.failed(problem)
        self._measure(request.call, monotonic_ns() - began)

    def _line_up(self, request: LongRequest, waits_for: Pause | bool | None) -> None:
        """Put a request that has more steps to take into the line again."""
        if isinstance(waits_for, Pause):
            waits_for.then(lambda: self.add(request))
        elif self.elements < MAX_ELEMENTS or waits_for is WAIT:  # it waits for another request, further back
            self._waiting.append(request)
        else:
            self._waiting.appendleft(request)

    def _may_drop(self, request: LongRequest) -> bool:
        """Whether to drop a request whose client has hung up. Not a Produce: with acks=0 clients hang up at once."""
        return request.call.route.api_key != ApiKey.PRODUCE or len(self._waiting) >= MAX_FINISHED_ALONE

    def in_thread(
        self, work: Callable[[], Result], finished: Callable[[Result], None], failed: Callable[[Exception], None]
    ) -> None:
        """Do `work` in the thread, then call one of the others on the event loop."""
        outcome: list[Callable[[], None]] = []

        def run() -> None:
            try:
                with quick_switches(self._switches_quickly):
                    result = work()
                outcome.append(lambda: finished(result))
            except Exception as problem:
                outcome.append(partial(failed, problem))

        self._worker.run(run, lambda: outcome[0]())

    def stop(self) -> None:
        self._unread.clear()
        self._waiting.clear()
        self._worker.stop()
