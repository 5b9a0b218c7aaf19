"""The files that `penstock init` writes: a commented domain file, and the files that it names."""

import shlex
from dataclasses import dataclass
from textwrap import dedent, indent

from penstock.model.yaml.document import scalar

DOMAIN_FILE = "domain.yaml"
AUTHORITY = "ca"
"""The name of the authority's files in the folder `tls`; the others there are named after their nodes."""
MQTT_PORT, TLS_PORT, ADMIN_PORT, CONSOLE_PORT = 1883, 8883, 8080, 18083


@dataclass(frozen=True)
class Starter:
    """The answers to the questions of `penstock init`."""

    domain: str
    nodes: tuple[str, ...]
    """The others dial the first."""
    devices: tuple[str, ...]
    viewers: tuple[str, ...]
    operators: tuple[str, ...]
    port: int = MQTT_PORT
    """The loopback port of the first node; the others use the next ports."""
    admin_port: int = ADMIN_PORT
    console_port: int = CONSOLE_PORT
    hosts: tuple[str, ...] = ()
    """Names and addresses by which the network reaches the nodes; none: this machine only."""
    tls_port: int = TLS_PORT
    journal: bool = True
    admin: str | None = None
    """The administrator; none: only the system user that runs the nodes."""
    console: bool = False

    @property
    def clients(self) -> tuple[str, ...]:
        return (*self.devices, *self.viewers, *self.operators)

    @property
    def kinds(self) -> dict[str, tuple[str, ...]]:
        """Return the clients by their link types."""
        kinds = {"device": self.devices, "viewer": self.viewers, "operator": self.operators}
        return {type_: names for type_, names in kinds.items() if names}

    def place(self, client: str) -> int:
        """Return the index of the node of a client: devices are spread over the nodes that dial the first."""
        leaves = len(self.nodes) - 1
        return self.devices.index(client) % leaves + 1 if client in self.devices and leaves else 0


def domain_file(starter: Starter) -> str:
    """Return the domain file, with comments."""
    admin = _ADMIN.format(admin=starter.admin) if starter.admin is not None else _NO_ADMIN
    head = (_HEAD.format(domain=_word(starter.domain)), _nodes(starter), _links(starter), admin)
    journal = _JOURNAL if starter.journal else _NO_JOURNAL
    return "\n".join(filter(None, (*head, _clients(starter), _brokering(starter), journal, _proofs(starter))))


def acl_file(starter: Starter) -> str:
    """Return the ACL file: topics that clients may publish and read."""
    parts = [_ACL_HEAD]
    parts += [f"user {name}\ntopic write sensors/{name}/#\ntopic read commands/{name}/#\n" for name in starter.devices]
    parts += [f"user {name}\ntopic read sensors/#\n" for name in starter.viewers]
    parts += [
        f"user {name}\ntopic read sensors/#\ntopic readwrite commands/#\ntopic read $SYS/#\n"
        for name in starter.operators
    ]
    return "\n".join(parts)


def _nodes(starter: Starter) -> str:
    lines = [_NODES_HEAD]
    for at, name in enumerate(starter.nodes):
        settings = _node(starter, at, name)
        # Only the first node has comments.
        lines += [f"  {name}:", *(f"    {key}  # {why}" if why and at == 0 else f"    {key}" for key, why in settings)]
    return "\n".join(lines) + "\n"


def _node(starter: Starter, at: int, name: str) -> list[tuple[str, str]]:
    """Return the settings of a node, a line for each, with its comment."""
    plain = f"127.0.0.1:{starter.port + at}"
    has_console = starter.console and at == 0
    if starter.hosts:
        listen = [
            ("listen:", ""),
            (f"  - {plain}", "this machine: in the clear"),
            (f"  - address: 0.0.0.0:{starter.tls_port + at}", "the network: encrypted"),
            (f"    tls: {{cert: tls/{name}.pem, key: tls/{name}.key}}", ""),
        ]
    else:
        listen = [(f"listen: {plain}", "this machine only; for the network, encrypted: `penstock init --hosts NAME`")]
    return [
        *listen,
        (f"store: {name}.db", "sessions, queued and retained messages survive a restart"),
        ("passwords: passwords", "of clients; change one with `penstock passwd passwords NAME`, then SIGHUP"),
        ("acl: acl", "topic rights, as Mosquitto has them"),
        (f"admin: 127.0.0.1:{starter.admin_port + at}", "for operators: `penstock status` and the console ask here"),
        *([(f"console: 127.0.0.1:{starter.console_port}", "a page to look at it all")] if has_console else []),
    ]


def _links(starter: Starter) -> str:
    if len(starter.nodes) == 1:
        return _ONE_NODE
    centre, *others = map(_word, starter.nodes)
    return _LINKS_HEAD + "".join(f"  - {{between: [{name}, {centre}], type: inside}}\n" for name in others)


def _clients(starter: Starter) -> str:
    lines = [
        f"  {name}: {{node: {_word(starter.nodes[starter.place(name)])}, user: {_word(name)}, type: {type_}}}\n"
        for type_, names in starter.kinds.items()
        for name in names
    ]
    return _CLIENTS_HEAD + "".join(lines)


def _brokering(starter: Starter) -> str:
    types = ", ".join([*starter.kinds, *(["inside"] if len(starter.nodes) > 1 else [])])
    return (_BROKERING if starter.viewers else _NO_BROKERING).format(types=types)


def _proofs(starter: Starter) -> str:
    """Return assertions and tests about the first client of each kind."""
    assertions, tests = [], []
    device = starter.devices[0] if starter.devices else None
    for viewer in starter.viewers[:1]:
        assertions += [f"  - {{never: {viewer} to {other}}}" for other in (*starter.devices, *starter.operators)]
        if device:
            assertions.append(f"  - {{can: {device} to {viewer}}}")
            topic = f"sensors/{device}/temperature"
            tests.append(f"  who watches sees what is measured:\n    - publish: {{{device}: {topic}}}")
            tests.append(f"      expect: {{{viewer}: {topic}}}")
            tests.append(f"  who watches cannot command:\n    - publish: {{{viewer}: commands/{device}/restart}}")
            tests.append('      expect: {"*": []}')
    for operator in starter.operators[:1] if device else ():
        topic = f"commands/{device}/restart"
        tests.append(f"  an operator can command:\n    - publish: {{{operator}: {topic}}}")
        tests.append(f"      expect: {{{device}: {topic}}}")
    parts = []
    if assertions:
        parts.append(_ASSERTIONS_HEAD + "\n".join(assertions) + "\n")
    if tests:
        parts.append(_TESTS_HEAD + "\n".join(tests) + "\n")
    return "\n".join(parts)


def _word(name: str) -> str:
    """Return a name as a YAML value: in quotes if it would be read as a number, or as true, false or nothing."""
    return name if isinstance(scalar(name).value, str) else f'"{name}"'


def _text(text: str) -> str:
    return dedent(text).lstrip("\n")


_HEAD = _text("""
    # A Penstock domain: the brokers, who may connect, what may go where, and what must never happen.
    #
    #   penstock check domain.yaml     every mistake with its line; the assertions below are proved
    #   penstock test domain.yaml      the stories at the end are played, in memory
    #   penstock run domain.yaml       all nodes, in this process
    #   penstock status domain.yaml    how they are
    #
    # `penstock schema` prints a JSON schema, with which editors complete and explain every key.
    domain: {domain}
""")
_NODES_HEAD = _text("""
    # --- Nodes: the brokers. All of them run in one process with `penstock run domain.yaml`; on several machines put
    # this folder on each, and run there `penstock run domain.yaml --node NAME`.
    nodes:
""").rstrip("\n")
_ONE_NODE = _text("""
    # --- Links: with a second node under `nodes`, say who dials whom.
    # links:
    #   - {between: [second, first], type: inside}     # and `inside` into `types` below
""")
_LINKS_HEAD = _text("""
    # --- Links: the first of `between` dials the second, and dials again if the link is cut. With the other node on
    # another machine add `address: HOST:PORT`, and copy there the secret that the first start writes beside this file.
    links:
""")
_ADMIN = _text("""
    # --- Admin: who may ask nodes about themselves, besides the system's user that runs them. `read` is to look at all
    # but payloads, `content` to look at these too, `change` to load other policies as well.
    admin:
      passwords: admin-passwords
      users: {{{admin}: change}}
      audit: admin.jsonl
""")
_NO_ADMIN = _text("""
    # --- Admin: who may ask nodes about themselves, besides the system's user that runs them.
    # admin:
    #   passwords: admin-passwords     # penstock passwd -c admin-passwords ada
    #   users: {ada: change}
""")
_CLIENTS_HEAD = _text("""
    # --- Clients: who is known; nobody else is admitted. A client is the user that it logs in as, with any client id.
    # `node` is where it connects, or a list of nodes; `type` its link type, by which `brokering` decides. Which topics
    # each may publish and read is in the file `acl`.
    clients:
""")
_BROKERING = _text("""
    # --- Brokering: from a link of which type may an event go on to which, whatever its topic? What viewers publish
    # goes nowhere: even if somebody grants them a topic by mistake, no device hears them.
    brokering:
      types: [{types}]
      deny: [{{from: viewer, to: [{types}]}}]
""")
_NO_BROKERING = _text("""
    # --- Brokering: from a link of which type may an event go on to which, whatever its topic? Everywhere, if nothing
    # is denied:
    #   deny: [{{from: device, to: device}}]
    brokering:
      types: [{types}]
""")
_JOURNAL = _text("""
    # --- Journal: what happened and why, for `penstock journal`, and for jobs on Spark (`penstock pipeline`).
    journal: {folder: journal}
""")
_NO_JOURNAL = _text("""
    # --- Journal: to record what happened and why (needs: pip install 'penstock[journal]').
    # journal: {folder: journal}
""")
_ASSERTIONS_HEAD = _text("""
    # --- Assertions: proved whenever this file is checked, started or reloaded, for every event and every way. A change
    # that breaks one is refused, and the old domain stays in force.
    assertions:
""")
_TESTS_HEAD = _text("""
    # --- Tests: stories that `penstock test` plays through all nodes in memory. Every client is connected and
    # subscribed to everything.
    tests:
""")
_ACL_HEAD = _text("""
    # Topic rights, in the format of Mosquitto's ACL file. What is not granted is denied.
    #
    #   devices    publish what they measure below sensors/NAME, and read commands that are for them
    #   viewers    read what is measured
    #   operators  read it too, and send commands
""")


def next_steps(starter: Starter, folder: str, passwords: dict[str, str]) -> str:
    """Return the next steps, with commands that work as they stand; the passwords are shown only here."""
    width = max(map(len, passwords), default=0)
    shown = "".join(f"  {name:{width}}  {password}\n" for name, password in passwords.items())
    prefix = f"{folder}/" if folder != "." else ""
    file = shlex.quote(f"{prefix}{DOMAIN_FILE}")
    lines = ["Passwords, shown once; the files have hashes of them only:\n\n" + shown] if shown else []
    lines.append(
        "Next:\n\n"
        f"  penstock check {file}     # is it right?\n"
        f"  penstock test {file}      # do the policies do what they should?\n"
        f"  penstock run {file}       # start; Ctrl-C ends it\n"
        f"  penstock status {file}    # in another terminal: how is it?\n"
    )
    lines += _tries(starter, passwords)
    if starter.console:
        page = f"http://127.0.0.1:{starter.console_port}"
        lines.append(f"The console is at {page}" + (f"; log in as {starter.admin}.\n" if starter.admin else ".\n"))
    if starter.hosts:
        file = f"{prefix}tls/{AUTHORITY}"
        lines.append(f"Clients in the network trust {file}.pem; keep {file}.key to yourself.\n")
    return "\n".join(lines)


def _tries(starter: Starter, passwords: dict[str, str]) -> list[str]:
    if not starter.devices or not starter.viewers:
        return []
    device, viewer = starter.devices[0], starter.viewers[0]
    as_device, as_viewer = (
        f"-p {starter.port + starter.place(name)} -u {name} -P {passwords[name]}" for name in (device, viewer)
    )
    commands = (
        f"penstock sub {as_viewer} -t 'sensors/#' -v",
        f"penstock pub {as_device} -t sensors/{device}/temperature -m 21.5",
    )
    return ["Then, each in a terminal:\n\n" + indent("\n".join(commands), "  ") + "\n"]
