"""Connections of jobs to a broker, as an ordinary client."""

import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote, urlsplit

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from penstock.pipeline.errors import ArgumentError, PipelineError

PATIENCE = 30.0
"""Seconds that connecting may take."""
WINDOW = 65535
_FOR_EVER = 0xFFFFFFFF
_VERSIONS = {"5": paho.MQTTv5, "3.1.1": paho.MQTTv311}


@dataclass(frozen=True)
class BrokerAddress:
    """Where a broker is, and who connects to it."""

    host: str
    port: int
    client_id: str
    username: str | None = None
    password: str | None = None
    tls: str | None = None
    """`true` for the system's trust, or the path of a file with certificates to trust."""
    version: str = "5"

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    def options(self) -> dict[str, str]:
        """Return the address as options of the data source, from which `of_options` makes the same."""
        options = {"host": self.host, "port": str(self.port), "client_id": self.client_id, "version": self.version}
        more = {"username": self.username, "password": self.password, "tls": self.tls}
        return {**options, **{name: value for name, value in more.items() if value is not None}}

    @classmethod
    def of_options(cls, options: Mapping[str, str]) -> "BrokerAddress":
        """Return the address that options of a data source give; raises `PipelineError`."""
        if not options.get("host") or not options.get("client_id"):
            raise PipelineError("`mqtt` needs the options `host` and `client_id`: the session is kept under this id")
        tls = options.get("tls")
        tls = None if tls in (None, "", "false") else tls
        version = options.get("version") or "5"
        if version not in _VERSIONS:
            raise PipelineError(f"MQTT version `{version}` is not one of 5 and 3.1.1")
        port = options.get("port") or ("8883" if tls else "1883")
        if not port.isdigit():
            raise PipelineError(f"`{port}` is not a port")
        who = options["client_id"], options.get("username"), options.get("password")
        return cls(options["host"], int(port), *who, tls, version)

    @classmethod
    def of_url(cls, text: str, client_id: str) -> "BrokerAddress":
        """Read `mqtt://[user[:password]@]host[:port]`, or `mqtts://…`; raises `ArgumentError`."""
        try:
            url = urlsplit(text)
            port = url.port
        except ValueError as error:
            raise ArgumentError(f"`{text}` is not an address: {error}") from None
        if url.scheme not in ("mqtt", "mqtts") or not url.hostname or url.path.strip("/"):
            raise ArgumentError(f"`{text}` is not an address such as mqtt://host:1883")
        made = cls(url.hostname, port or (1883 if url.scheme == "mqtt" else 8883), client_id)
        user = None if url.username is None else unquote(url.username)
        password = None if url.password is None else unquote(url.password)
        return replace(made, username=user, password=password, tls="true" if url.scheme == "mqtts" else None)

    def client(self) -> paho.Client:
        """Return a client that acknowledges by hand, and is not connected yet."""
        clean, protocol = None if self.version == "5" else False, _VERSIONS[self.version]
        made = paho.Client(
            CallbackAPIVersion.VERSION2, self.client_id, clean_session=clean, protocol=protocol, manual_ack=True
        )
        if self.username is not None:
            made.username_pw_set(self.username, self.password)
        if self.tls is not None:
            trusted = None if self.tls == "true" else self.tls
            made.tls_set_context(ssl.create_default_context(cafile=trusted))
        return made

    def connect(self, client: paho.Client, keeps_session: bool) -> None:
        """Connect, and have its thread run; it connects again by itself. Raises `PipelineError`."""
        answered = threading.Event()
        codes: list[ReasonCode] = []
        inner = client.on_connect

        def on_connect(client: paho.Client, data: Any, flags: Any, code: ReasonCode, properties: Any) -> None:
            codes.append(code)
            if inner is not None and not code.is_failure:
                inner(client, data, flags, code, properties)  # type: ignore[call-arg, arg-type]
            answered.set()

        client.on_connect = on_connect
        more: dict[str, Any] = {}
        if self.version == "5":
            properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
            properties.SessionExpiryInterval = _FOR_EVER if keeps_session else 0
            properties.ReceiveMaximum = WINDOW
            more = {"clean_start": not keeps_session, "properties": properties}
        try:
            client.connect(self.host, self.port, **more)
        except (OSError, ValueError) as error:
            raise PipelineError(f"cannot connect to `{self}`: {error}") from error
        client.loop_start()
        if not answered.wait(PATIENCE):
            client.loop_stop()
            raise PipelineError(f"`{self}` does not answer")
        if codes[0].is_failure:
            client.disconnect()
            client.loop_stop()
            raise PipelineError(f"`{self}` refuses `{self.client_id}`: {codes[0]}")
