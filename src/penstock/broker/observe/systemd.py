"""Notification of the service manager: systemd's sd_notify protocol, datagrams to the socket that it names."""

import os
import socket


def notify(state: str) -> None:
    """Send `READY=1`, `STOPPING=1` or the like; do nothing if no service manager has asked, or it no longer listens."""
    name = os.environ.get("NOTIFY_SOCKET", "")
    if not name.startswith(("/", "@")):
        return
    address = "\0" + name[1:] if name.startswith("@") else name  # Linux has sockets without a file
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        try:
            line.connect(address)
            line.send(state.encode())
        except OSError:
            return
