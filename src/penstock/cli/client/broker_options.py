"""Options and connection handling that `penstock pub` and `penstock sub` share."""

import os
import signal
import socket
import ssl
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeVar

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from penstock.cli.client.groups import GroupOption
from penstock.cli.client.properties import Property, properties_for, take_property
from penstock.cli.client.token_file import TokenFile
from penstock.cli.client.url import Url
from penstock.cli.options import HelpWanted, UsageError, choice, flag, number, option, options, parse, usage, utf8
from penstock.model.errors import TopicError
from penstock.model.topic import check_topic

EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_CONNECTION_LOST = 7
EXIT_TIMED_OUT = 27

_FOREVER = 0xFFFFFFFF
_CONNECT_TIMEOUT = 10.0
# paho-mqtt reports 3.1.1's refusals as MQTT 5 reason codes; the exit code is the one that was on the wire.
_CONNACK_311 = {132: 1, 133: 2, 136: 3, 134: 4, 135: 5}


class CommandFailure(Exception):
    """A command that failed: the message and the exit code."""

    def __init__(self, message: str, code: int = EXIT_FAILURE) -> None:
        super().__init__(message)
        self.code = code


def _session_expiry(text: str) -> int:
    return _FOREVER if text in ("-1", "∞") else int(number(0, _FOREVER)(text))


_NOWHERE = Url(False, False, None, None, "localhost", None, "")
_VERSIONS = {
    **dict.fromkeys(("5", "mqttv5"), 5),
    **dict.fromkeys(("311", "mqttv311"), 4),
    **dict.fromkeys(("31", "mqttv31"), 3),
}
_TLS_VERSIONS = {
    "tlsv1.3": ssl.TLSVersion.TLSv1_3,
    "tlsv1.2": ssl.TLSVersion.TLSv1_2,
    "tlsv1.1": ssl.TLSVersion.TLSv1_1,
}


@dataclass(frozen=True)
class ClientOptions:
    """The options that both commands have."""

    given_host: str | None = option("-h, --host HOST", "broker's host; localhost if not given")
    given_port: int | None = option(
        "-p, --port PORT",
        "broker's port; if not given 1883, or 8883 with TLS, or 80 or 443 with --ws",
        number(1, 65535),
    )
    given_url: Url = option(  # noqa: RUF009  (it makes a field)
        "-L, --url URL",
        "user, password, host, port and topic at once: mqtt[s]://[user[:password]@]host[:port][/topic]; "
        "or a WebSocket: ws[s]://[user[:password]@]host[:port][/path], which Mosquitto's clients do not have",
        Url.parse,
        default=_NOWHERE,
    )
    unix: str | None = option("--unix PATH", "connect to a Unix domain socket")
    bind_address: str = option("-A ADDRESS", "connect from this local address or interface", default="")
    is_websocket: bool = flag("--ws", "connect by WebSocket (not in Mosquitto's clients)")
    websocket_path: str | None = option(
        "--ws-path PATH", "path of the WebSocket; /mqtt if not given (not in Mosquitto's clients)"
    )
    no_delay: bool = flag("--nodelay", "send small packets at once (no Nagle's algorithm)")
    user: str | None = option("-u, --username NAME", "user name", utf8)
    given_password: str | None = option("-P, --pw PASSWORD", "password", utf8)
    given_id: str | None = option("-i, --id ID", "client id", utf8)
    id_prefix: str | None = option("-I, --id-prefix PREFIX", "client id is PREFIX and the process id", utf8)
    given_version: int = option(
        "-V, --protocol-version VERSION",
        "mqttv5, mqttv311 (if not given) or mqttv31; or 5, 311, 31",
        choice(_VERSIONS),
        default=4,
    )
    is_persistent: bool = flag("-c, --disable-clean-session", "keep the session, and resume it; needs -i or -I")
    keep_alive: int = option("-k, --keepalive SECONDS", "keep alive; 60 if not given", number(5, 65535), default=60)
    session_expiry: int | None = option(
        "-x SECONDS",
        "how long the session outlives the connection (MQTT 5); -1 or ∞ for ever; if not given 0, or for ever with -c",
        _session_expiry,
    )
    qos: Literal[0, 1, 2] = option("-q, --qos QOS", "quality of service: 0, 1 or 2", number(0, 2), default=0)
    properties: tuple[Property, ...] = options(
        "-D, --property COMMAND NAME VALUE",
        "an MQTT 5 property, e.g. -D publish content-type text/plain; a user-property has two values; "
        "makes the connection an MQTT 5 one",
        take=take_property,
    )
    will_topic: str | None = option("--will-topic TOPIC", "topic of the will")
    will_payload: str | None = option("--will-payload TEXT", "payload of the will")
    will_qos: int = option("--will-qos QOS", "quality of service of the will", number(0, 2), default=0)
    is_will_retained: bool = flag("--will-retain", "retain the will")
    ca_file: str | None = option("--cafile FILE", "trusted certificates in PEM; uses TLS")
    ca_path: str | None = option("--capath FOLDER", "folder of trusted certificates; uses TLS")
    uses_system_trust: bool = flag("--tls-use-os-certs", "trust what the system trusts; uses TLS")
    certificate: str | None = option("--cert FILE", "this client's certificate in PEM")
    key: str | None = option("--key FILE", "the key of that certificate")
    ciphers: str | None = option("--ciphers LIST", "TLS ciphers, as OpenSSL names them")
    tls_version: ssl.TLSVersion | None = option(  # noqa: RUF009  (it makes a field)
        "--tls-version VERSION",
        "just this version: tlsv1.3, tlsv1.2 or tlsv1.1; if not given tlsv1.2 or newer",
        choice(_TLS_VERSIONS),
    )
    alpn: str | None = option("--tls-alpn PROTOCOL", "application protocol to ask for")
    is_insecure: bool = flag("--insecure", "do not check that the certificate is the host's; for tests only")
    groups: tuple[GroupOption, ...] = options(
        "--group NAME=file:PATH|env:VARIABLE",
        "prove membership of this trust group, whose secret is in a file or an environment variable; makes the "
        "connection an MQTT 5 one (not in Mosquitto's clients)",
        GroupOption.parse,
    )
    token: TokenFile | None = option(  # noqa: RUF009  (it makes a field)
        "--token FILE",
        "show the authorisation token in this file, as the password; the file is read again for each connection "
        "(not in Mosquitto's clients)",
        TokenFile.parse,
    )
    uses_token_method: bool = flag(
        "--token-method",
        "show it by enhanced authentication, and a new one that is in the file before the old one ends without "
        "a new connection; makes the connection an MQTT 5 one (not in Mosquitto's clients)",
    )
    is_debug: bool = flag("-d, --debug", "print each packet")
    is_quiet: bool = flag("--quiet", "do not print errors, but for those in the command line")

    def __post_init__(self) -> None:
        if self.given_id == "":
            raise UsageError("the client id is empty")
        if self.given_id and self.id_prefix:
            raise UsageError("-i and -I cannot be used together")
        if not self.client_id and (self.is_persistent or self.session_expiry == _FOREVER):
            raise UsageError("a session that outlives the connection needs a client id")
        if (self.certificate is None) != (self.key is None):
            raise UsageError("--cert and --key must be used together")
        if self.version < 5 and self.password is not None and self.username is None:
            raise UsageError("a password needs a user name before MQTT 5")
        if self.token is not None and self.password is not None:
            raise UsageError("--token and a password cannot be used together")
        if self.uses_token_method and (self.token is None or self.groups):
            raise UsageError("--token-method needs --token, and cannot be used with --group")
        self._check_will()

    def _check_will(self) -> None:
        if self.will_topic is not None:
            check_publish_topic(self.will_topic)
        elif self.will_payload is not None or self.will_qos or self.is_will_retained:
            raise UsageError("a will needs --will-topic")

    @property
    def version(self) -> int:
        """Return the protocol level: 5, 4 (3.1.1) or 3 (3.1)."""
        return 5 if self.properties or self.groups or self.uses_token_method else self.given_version

    @property
    def client_id(self) -> str:
        """Return the client id; empty if the broker is to choose one."""
        return self.given_id or (f"{self.id_prefix}{os.getpid()}" if self.id_prefix else "")

    @property
    def username(self) -> str | None:
        return self.user if self.user is not None else self.given_url.user

    @property
    def password(self) -> str | None:
        return self.given_password if self.given_password is not None else self.given_url.password

    @property
    def host(self) -> str:
        return self.given_host or self.given_url.host

    @property
    def transport(self) -> Literal["tcp", "websockets", "unix"]:
        if self.unix is not None:
            return "unix"
        return "websockets" if self.is_websocket or self.given_url.is_websocket else "tcp"

    @property
    def port(self) -> int:
        port = self.given_port or self.given_url.port
        plain, secure = (80, 443) if self.transport == "websockets" else (1883, 8883)
        return port or (secure if self.is_secure else plain)

    @property
    def is_secure(self) -> bool:
        """Return whether to use TLS."""
        has_option = self.ca_file or self.ca_path or self.certificate or self.uses_system_trust
        return bool(has_option or self.given_url.is_secure or 8883 in (self.given_port, self.given_url.port))

    @property
    def url_topic(self) -> str | None:
        return None if self.given_url.is_websocket else self.given_url.rest or None

    @property
    def where(self) -> str:
        """Return the broker's address for a message."""
        return self.unix or f"{self.host}:{self.port}"


def check_publish_topic(topic: str) -> None:
    """Raise `UsageError` unless `topic` can be published to."""
    try:
        check_topic(topic)
    except TopicError as error:
        raise UsageError(str(error)) from error


def make_client(options: ClientOptions, *, reconnects: bool) -> paho.Client:
    """Return a client that is set up, but not connected."""
    client = _client_class(options)(
        CallbackAPIVersion.VERSION2,
        options.client_id,
        clean_session=None if options.version == 5 else not options.is_persistent,
        protocol=MQTTProtocolVersion(options.version),
        transport=options.transport,
        reconnect_on_failure=reconnects,
    )
    if options.username is not None or options.password is not None:
        client.username_pw_set(options.username or "", options.password)
    if options.will_topic is not None:
        payload = os.fsencode(options.will_payload or "")
        properties = properties_for("will", options.properties)
        client.will_set(options.will_topic, payload, options.will_qos, options.is_will_retained, properties)
    if options.transport == "websockets":
        client.ws_set_options(options.websocket_path or f"/{options.given_url.rest or 'mqtt'}")
    if options.is_secure:
        client.tls_set_context(_tls_context(options))
        client.tls_insecure_set(options.is_insecure)
    if options.no_delay:
        client.on_socket_open = _send_at_once
    if options.is_debug:
        client.on_log = partial(_print_packet, options.client_id or "(null)")
    return client


def _client_class(options: ClientOptions) -> Callable[..., paho.Client]:
    if not options.groups and options.token is None:
        return paho.Client
    # Imported here: most uses of the command do not need these.
    from penstock.client.group_auth import ProvingClient
    from penstock.client.token_auth import ProvingWithToken, TokenAsPassword, TokenByMethod

    groups = {group.name: group.secret for group in options.groups}
    if options.token is None:
        return partial(ProvingClient, groups=groups)
    if groups:
        return partial(ProvingWithToken, groups=groups, token=options.token.current)
    return partial(TokenByMethod if options.uses_token_method else TokenAsPassword, token=options.token.current)


def connect(client: paho.Client, options: ClientOptions, timeout: float = _CONNECT_TIMEOUT) -> None:
    """Open the connection and send CONNECT; raise `CommandFailure`."""
    client.connect_timeout = min(timeout, _CONNECT_TIMEOUT)
    host = options.unix or options.host
    is_5 = options.version == 5
    extra: dict[str, Any] = {"clean_start": not options.is_persistent} if is_5 else {}
    try:
        timing = (options.keep_alive, options.bind_address)
        client.connect(host, options.port, *timing, properties=_connect_properties(options), **extra)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise CommandFailure(f"cannot connect to `{options.where}`: {reason}") from error


def refusal(options: ClientOptions, reason: ReasonCode, properties: object = None) -> CommandFailure:
    """Return the failure of a refused connection; its exit code is the reason code that the broker sent."""
    code = reason.value if options.version == 5 else _CONNACK_311.get(reason.value, EXIT_FAILURE)
    words = [str(reason), getattr(properties, "ReasonString", "")]
    return CommandFailure(f"connection to `{options.where}` refused: {': '.join(filter(None, words))}", code)


def lost(options: ClientOptions, reason: object) -> CommandFailure:
    """Return the failure of a connection that ended before the work was done."""
    return CommandFailure(f"connection to `{options.where}` lost: {reason}", EXIT_CONNECTION_LOST)


Options = TypeVar("Options", bound=ClientOptions)


def run(kind: type[Options], work: Callable[[Options], int], synopsis: str, argv: Sequence[str]) -> int:
    """Parse the command line, do the work, and turn an error into one line and an exit code."""
    try:
        options = parse(kind, argv)
    except HelpWanted:
        print(usage(kind, synopsis))
        return 0
    except UsageError as error:
        print(f"Error: {error}\n{synopsis.splitlines()[0]}", file=sys.stderr)
        return EXIT_USAGE
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return work(options)
    except CommandFailure as failure:
        if not options.is_quiet:
            print(f"Error: {failure}", file=sys.stderr)
        return failure.code
    except BrokenPipeError:  # of the output of -d
        abandon_stdout()
        return 0


def abandon_stdout() -> None:
    """Redirect standard output to nothing, so that Python's last flush does not fail: nobody reads any more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _connect_properties(options: ClientOptions) -> Properties | None:
    if options.version != 5:
        return None
    expiry = _FOREVER if options.session_expiry is None and options.is_persistent else options.session_expiry
    usual: dict[str, int | None] = {"session-expiry-interval": expiry, "request-problem-information": 1}
    stated = {property_.name for property_ in options.properties if property_.command == "connect"}
    extra = [Property("connect", name, value) for name, value in usual.items() if value and name not in stated]
    return properties_for("connect", [*options.properties, *extra])


def _tls_context(options: ClientOptions) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = options.tls_version or ssl.TLSVersion.TLSv1_2
    if options.tls_version:
        context.maximum_version = options.tls_version
    # Without the host name check, any trusted certificate is accepted.
    context.check_hostname = not options.is_insecure
    try:
        if options.ca_file or options.ca_path:
            context.load_verify_locations(options.ca_file, options.ca_path)
        if options.uses_system_trust or not (options.ca_file or options.ca_path):
            context.load_default_certs()
        if options.certificate:
            context.load_cert_chain(options.certificate, options.key)
        if options.ciphers:
            context.set_ciphers(options.ciphers)
    except OSError as error:  # ssl.SSLError is a subclass
        files = [file for file in (options.ca_file, options.certificate, options.key) if file]
        named = f" with {' and '.join(f'`{file}`' for file in files)}" if files else ""
        raise CommandFailure(f"cannot set up TLS{named}: {error.strerror or error}") from error
    if options.alpn:
        context.set_alpn_protocols([options.alpn])
    return context


def _send_at_once(client: paho.Client, data: object, connection: Any) -> None:
    if isinstance(connection, socket.socket):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _print_packet(name: str, client: paho.Client, data: object, level: int, text: str) -> None:
    if level == paho.MQTT_LOG_DEBUG:
        print(f"Client {name} {text[:1].lower()}{text[1:]}", flush=True)
