"""What stands for `penstock` in the shell of a page: has the fork server run the command, and hands signals on.

It imports little, so that it starts at once. The runner puts an interpreter in front of it.
"""

import json
import os
import re
import signal
import socket
import sys


def with_port(argv: list[str], port: str) -> list[str]:
    """The command line with the port that stands for the default one, if it would use that."""
    if argv[:1] in (["pub"], ["sub"]) and not {"-p", "--port", "-L", "--url", "--unix", "--help"}.intersection(argv):
        return [*argv, "-p", port]
    has_file = any(word.endswith((".yaml", ".yml")) for word in argv)
    if argv[:1] == ["run"] and not has_file and not {"-p", "--port", "--help"}.intersection(argv):
        return [*argv, "-p", port]
    return argv


argv = with_port(sys.argv[1:], os.environ["PAGE_PORT"])
is_killed = argv[:1] == ["run"] and "--store" in argv and "PAGE_KILLS" in os.environ  # it must be the node itself
if is_killed or argv[:1] == ["pipeline"]:  # Spark makes processes of its own, and is slow anyway
    with open(f"{os.environ['PAGE_PROCESSES']}/{os.getpid()}", "w") as mark:
        mark.write(str(os.getpid()))
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell has jobs in the background ignore it
    code = "import sys; from penstock.cli.main import main; sys.exit(main())"
    os.execv(sys.executable, [sys.executable, "-c", code, *argv])
environ = dict(os.environ)
request = json.dumps({"args": argv, "cwd": os.getcwd(), "env": environ, "asked": os.getpid()}).encode()
with socket.socket(socket.AF_UNIX) as server:
    server.connect(os.environ["PAGE_SERVER"])
    socket.send_fds(server, [len(request).to_bytes(4, "big")], [0, 1, 2])
    server.sendall(request)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda number, frame: server.sendall(bytes([number])))
    answer = server.recv(1)
if argv[:1] == ["init"] and answer == b"\0":  # what it has written gets the ports of the page too
    given = json.loads(os.environ["PAGE_PORTS"])
    with open(f"{argv[1]}/domain.yaml") as file:
        text = file.read()
    with open(f"{argv[1]}/domain.yaml", "w") as file:
        file.write(re.sub(r"(?<=127\.0\.0\.1:)\d+", lambda found: given[found[0]], text))
sys.exit(answer[0] if answer else 1)
