"""The process: listens, closes idle connections, and stops in good order.

start    open the data folder -> listen -> say where
stop     stop listening -> answer what can be answered -> close connections -> sync and close the logs
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
from collections import Counter
from collections.abc import Callable
from errno import EACCES, EADDRINUSE, EADDRNOTAVAIL, EAFNOSUPPORT, EPERM
from typing import TYPE_CHECKING, Any

from kohort.broker.broker import Broker, CallLater
from kohort.broker.call import Call
from kohort.broker.config import INT32_MAX, Config, Listener, parse_listeners
from kohort.broker.connection import SLOW_STEP_NS, Connection
from kohort.broker.steps import LongRequests, Turns
from kohort.storage.disk import RealDisk

if TYPE_CHECKING:
    from kohort.broker.live.feed import Feed

logger = logging.getLogger(__name__)

SWEEP_INTERVAL_S = 1.0
REFUSALS_INTERVAL_S = 10.0
CONNECTIONS_PER_TURN = 2_000
MAX_HELD_BYTES = 512 * 1024 * 1024  # for half requests and unread answers; records of large answers stay in files
RESERVED_FILES = 200  # segments that are read (see OpenFiles), compaction, checkpoints; besides one for each log
DESCRIPTORS_PER_CONNECTION = 2  # at most: its socket, and another one for large answers (FileSender)
MAX_PORT = 65_535
LOOPBACK = "127.0.0.1"
NOT_ON_THIS_MACHINE = (EADDRNOTAVAIL, EAFNOSUPPORT)


class CannotListen(Exception):
    """The address of a listener cannot be used. The text says which one, why, and what to do about it."""


class Server:
    """Listeners and connections around one Broker."""

    def __init__(
        self,
        broker: Broker,
        make_connection: Callable[[Server, int], Connection] | None = None,
        call_later_by_clock: CallLater | None = None,
    ) -> None:
        """`make_connection` None: as the log level says. `call_later_by_clock`: with a clock that is not the usual."""
        self.broker = broker
        self._make_connection = make_connection
        self._call_later_by_clock = call_later_by_clock
        self.loop = asyncio.get_running_loop()
        self.time = self.loop.time
        self.routes = broker.apis.routes
        self.max_request_bytes = broker.config.socket_request_max_bytes
        self.addresses: list[tuple[str, int]] = []  # where it listens, in the order of `listeners`; "" is everywhere
        self._connections: set[Connection] = set()
        self._per_ip: Counter[str] = Counter()
        self._listeners: list[asyncio.Server] = []
        self._sweeper: asyncio.Handle | None = None
        self._stopping = asyncio.Event()
        self._refused = 0  # connections, since the last line in the log about them
        self._last_refusal = ""
        self._tell_refusals_at = 0.0
        self._max_files = _max_files()
        self.first_reserved = self._max_files  # descriptors from this number on are for files
        self._few_connections = 0  # with so few connections no descriptor can have such a number
        self.metrics: Any = None  # broker.metrics.Metrics, if the HTTP port is open
        self.http_address: tuple[str, int] | None = None
        self.live: Feed | None = None  # the live page, if the HTTP port is open
        self.turns = Turns(self.loop.call_soon)
        self.long_requests = LongRequests(
            self.loop.call_soon, self.loop.call_soon_threadsafe, self.measure_step, switches_quickly=broker.owns_process
        )

    # --- start

    async def start(self) -> None:
        config = self.broker.config
        self.broker.call_later = self.loop.call_later
        self.broker.call_later_by_clock = self._call_later_by_clock or self.loop.call_later
        self.broker.call_soon = self.loop.call_soon
        self.broker.open(self.broker.clock.now_ms())
        self.broker.start_work(self.loop.call_soon_threadsafe)
        self._reserve_descriptors()
        try:
            listeners = parse_listeners(config.listeners)
            if config.http_port >= 0:
                await self._start_http(config.kohort_http_host or listeners[0].host)
            for index, listener in enumerate(listeners):
                await self._listen(index, listener)
        except BaseException:
            self.broker.close(self.broker.clock.now_ms())
            raise
        self.broker.advertised = self._advertised()
        self._sweep()

    async def _start_http(self, host: str) -> None:
        from kohort.broker.http.endpoint import HttpEndpoint
        from kohort.broker.http.metrics_page import metrics_page
        from kohort.broker.http.site import Site
        from kohort.broker.live.on_broker import live_page
        from kohort.broker.metrics import Metrics

        self.metrics = Metrics(self)
        site = Site()
        site.add("GET", "/metrics", metrics_page(self.metrics))
        self.live = live_page(self.broker, site, host, self.loop, self.metrics)
        endpoints: set[HttpEndpoint] = set()
        port = self.broker.config.http_port
        other = f"kohort.http.port={_another(port)}"
        self.http_address = await self._bind(lambda: HttpEndpoint(site, endpoints), host, port, other)

    async def _listen(self, index: int, listener: Listener) -> None:
        make_connection = self._make_connection or _connection_class()
        other = f"listeners={listener.name}://{listener.host}:{_another(listener.port)}"
        address = await self._bind(lambda: make_connection(self, index), listener.host, listener.port, other)
        self.addresses.append((listener.host, address[1]))

    async def _bind(
        self, protocol: Callable[[], asyncio.Protocol], host: str, port: int, other: str
    ) -> tuple[str, int]:
        """Listen on every address of the host, with one port. `other` is a setting with another port.

        Returns the first address. A machine without IPv6 may still call ::1 localhost, so one address is enough.
        """
        first: tuple[str, int] | None = None
        missing: OSError | None = None
        backlog = self.broker.config.socket_listen_backlog_size
        for each in _addresses(host):
            try:
                made = await self.loop.create_server(protocol, each, first[1] if first else port, backlog=backlog)
            except OSError as problem:
                if problem.errno not in NOT_ON_THIS_MACHINE:
                    raise CannotListen(why_not_listen(problem, host, port, other)) from problem
                missing = problem
                continue
            self._listeners.append(made)
            first = first or made.sockets[0].getsockname()[:2]
        if first is None:
            assert missing is not None
            raise CannotListen(why_not_listen(missing, host, port, other)) from missing
        return first

    def _advertised(self) -> list[Listener]:
        """The address that clients are told to use, by the index of the listener that they connected to."""
        config = self.broker.config
        wanted = parse_listeners(config.advertised_listeners or config.listeners)
        by_name = {each.name: each for each in wanted}
        told = []
        for index, listener in enumerate(parse_listeners(config.listeners)):
            each = by_name.get(listener.name, wanted[0])
            host = each.host if each.host not in ("", "0.0.0.0", "::") else _own_name()  # noqa: S104
            told.append(Listener(each.name, host, each.port or self.addresses[index][1]))
        return told

    # --- connections

    def admits(self, connection: Connection) -> bool:
        """Count the connection. False: there are too many, and it has to be closed."""
        self._connections.add(connection)
        refusal = self._refusal(connection)
        if refusal is None:
            return True
        self._refused += 1
        self._last_refusal = f"{connection.peer[0]}:{connection.peer[1]}: {refusal}"
        self._tell_refusals()
        return False

    def _refusal(self, connection: Connection) -> str | None:
        config = self.broker.config
        if len(self._connections) > config.max_connections:
            return f"max.connections={config.max_connections} reached"
        if config.max_connections_per_ip < INT32_MAX:
            self._per_ip[connection.peer[0]] += 1
            if self._per_ip[connection.peer[0]] > config.max_connections_per_ip:
                return f"max.connections.per.ip={config.max_connections_per_ip} reached"
        if len(self._connections) > self._few_connections and connection.descriptor >= self.first_reserved:
            reserved = self._max_files - self.first_reserved
            in_use = f"of {self._max_files} open files, {reserved} are for logs and the others are in use"
            return f"{in_use}: raise the limit (ulimit -n)"
        return None

    def _tell_refusals(self) -> None:
        """A line in the log for all connections that were refused since the last one, every ten seconds at most."""
        now = self.loop.time()
        if self._refused and now >= self._tell_refusals_at:
            logger.warning("refused %d connections, the last one of %s", self._refused, self._last_refusal)
            self._refused = 0
            self._tell_refusals_at = now + REFUSALS_INTERVAL_S

    def _reserve_descriptors(self) -> None:
        """Keep some descriptors for the logs. A new descriptor is the lowest free number, so its number tells how many
        are in use."""
        files = RESERVED_FILES + len(self.broker.logs.logs)
        self.first_reserved = self._max_files - min(self._max_files // 2, files)
        self._few_connections = (self.first_reserved - files) // DESCRIPTORS_PER_CONNECTION

    def disconnected(self, connection: Connection) -> None:
        self._connections.discard(connection)
        if self._per_ip:
            self._per_ip -= Counter((connection.peer[0],))  # this also drops addresses whose count is 0

    def measure_step(self, call: Call, took_ns: int) -> None:
        """A step of this request held the event loop for so long, and all other clients waited."""
        if self.metrics is not None:
            self.metrics.api(call.route.name).held_loop(took_ns / 1e9)
        if took_ns > SLOW_STEP_NS:
            name, version = call.route.name, call.version
            logger.warning(
                "a step of %s v%d of %s held the event loop for %d ms", name, version, call, took_ns // 1_000_000
            )

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    def _sweep(self) -> None:
        """Close connections that are silent for too long or never finish a frame, or fill the memory."""
        self._reserve_descriptors()
        self._tell_refusals()
        self._look_at(list(self._connections), [])

    def _look_at(self, connections: list[Connection], holding: list[tuple[int, Connection]]) -> None:
        """Look at the last of these connections, and at the others in the next turns of the event loop."""
        config = self.broker.config
        now = self.loop.time()
        idle_s = config.connections_max_idle_ms / 1000
        half_frame_s = config.kohort_request_read_timeout_ms / 1000
        for connection in connections[-CONNECTIONS_PER_TURN:]:
            since = connection.half_frame_since()
            if since is not None and now - since > half_frame_s:
                connection.close(f"no whole request within {half_frame_s:g} s (kohort.request.read.timeout.ms)")
            elif idle_s >= 0 and now - connection.heard_last(now) > idle_s:
                connection.close(f"silent for {idle_s:g} s (connections.max.idle.ms)")
            elif held_bytes := connection.held_bytes:
                holding.append((held_bytes, connection))
        del connections[-CONNECTIONS_PER_TURN:]
        if connections:
            self._sweeper = self.loop.call_soon(self._look_at, connections, holding)
            return
        self._close_largest(holding)
        self._sweeper = self.loop.call_later(SWEEP_INTERVAL_S, self._sweep)

    def _close_largest(self, holding: list[tuple[int, Connection]]) -> None:
        """If unread requests and answers together take more than MAX_HELD_BYTES, close the largest connections."""
        total = sum(size for size, _ in holding)
        for size, connection in sorted(holding, key=lambda each: each[0], reverse=True):
            if total <= MAX_HELD_BYTES:
                return
            total -= size
            what = "a request that is not read yet, or answers that it does not read"
            connection.close(f"{size:,} bytes of memory for {what}; others take {total:,} more, which is too much")

    # --- stop

    def stop_on_signals(self) -> None:
        """SIGTERM and SIGINT stop in good order; a second one stops at once."""
        for number in (signal.SIGTERM, signal.SIGINT):
            self.loop.add_signal_handler(number, self._signalled)

    def _signalled(self) -> None:
        if self._stopping.is_set():
            logger.warning("stopped at once by a second signal; the next start will check the logs")
            sys.stderr.flush()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.raise_signal(signal.SIGTERM)
        self._stopping.set()

    def stop_soon(self) -> None:
        """Stop in good order, as on a signal."""
        self._stopping.set()

    async def wait_until_stopped(self) -> None:
        await self._stopping.wait()

    async def stop(self) -> None:
        self._stop_listening()
        for connection in list(self._connections):
            connection.finish()
        self.long_requests.stop()
        await asyncio.sleep(0)  # one turn of the loop, in which the transports write their last answers
        self.broker.close(self.broker.clock.now_ms())

    async def abandon(self) -> None:
        """Stop as if the process had been killed: connections are cut, and nothing more is written."""
        self._stop_listening()
        self.drop_connections()
        self.long_requests.stop()
        self.broker.abandon()

    def _stop_listening(self) -> None:
        for listener in self._listeners:
            listener.close()
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self.live is not None:
            self.live.stop()

    def drop_connections(self) -> None:
        """Close all connections at once; answers that were not sent are lost."""
        for connection in list(self._connections):
            connection.cut()


async def serve(config: Config, announce: Callable[[Server], None] | None = None) -> None:
    """Run until a signal comes. `announce(server)` is called when clients can connect."""
    server = Server(Broker(config, RealDisk()))
    await server.start()
    server.stop_on_signals()
    if announce is not None:
        announce(server)
    await server.wait_until_stopped()
    await server.stop()


def _max_files() -> int:
    """How many files this process may have open."""
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def why_not_listen(problem: OSError, host: str, port: int, other: str) -> str:
    """Why the broker cannot listen there, and what to do. `other` is a setting with another port."""
    if problem.errno == EADDRINUSE:
        where = f" on {host}" if host else ""
        return f"port {port} is in use{where}: stop the program that uses it, or take another: --override {other}"
    if problem.errno in (EACCES, EPERM):
        return f"the system does not let this user listen on port {port}: take one above 1023"
    if problem.errno == EADDRNOTAVAIL:
        return f"cannot listen on {host}: this machine has no such address; leave the host out to listen on all"
    if isinstance(problem, socket.gaierror):
        return f"cannot listen on {host}: the name cannot be resolved ({problem.strerror})"
    return f"cannot listen on {host}:{port}: {problem.strerror or problem}"


def _another(port: int) -> int:
    return port + 1 if port < MAX_PORT else port - 1


def _connection_class() -> type[Connection]:
    """With --log-level debug requests are logged. That is decided here, once, so that it costs nothing otherwise."""
    if not logger.isEnabledFor(logging.DEBUG):
        return Connection
    from kohort.broker.request_log import LoggedConnection

    return LoggedConnection


def _addresses(host: str) -> list[str | None]:
    """The addresses to listen on; None is every address. Clients may try either address of `localhost` first."""
    if host != "localhost":
        return [host or None]
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return [LOOPBACK]
    return list(dict.fromkeys(str(address[0]) for family, *_, address in sorted(found, key=lambda each: each[0])))


def _own_name() -> str:
    """The host name to tell clients if the broker listens on every address and advertised.listeners is not set."""
    return socket.getfqdn() if _resolves(socket.getfqdn()) else "localhost"


def _resolves(name: str) -> bool:
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return False
    return True
