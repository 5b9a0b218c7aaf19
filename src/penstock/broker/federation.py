"""The nodes of a domain that run in this process, and their links to each other and to nodes elsewhere."""

import logging
import os
import secrets
import tempfile
from collections.abc import Iterable
from pathlib import Path

from penstock.broker.net.peer import Dialler
from penstock.broker.net.tls import make_client_context
from penstock.broker.server import Server
from penstock.domain import Address, Domain, diff
from penstock.domain.compile.ensemble import ensemble
from penstock.domain.schema.federation import ForeignSettings, LinkSettings
from penstock.domain.schema.trust import SecretError
from penstock.engine.federation import overlay
from penstock.engine.federation.dialling import Greeting
from penstock.engine.trust import group_proofs, groups
from penstock.engine.trust.state import GroupSecrets
from penstock.model.errors import PenstockError

log = logging.getLogger("penstock.federation")


class Federation:
    """The servers of the nodes that run here, and the links that they make."""

    def __init__(self, domain: Domain, names: tuple[str, ...], folder: Path | None) -> None:
        """`names`: the domain's nodes that run here. `folder`: that of the domain file, if there is one."""
        self.domain = domain
        self.folder = folder
        entities = ensemble(domain, folder)
        self._group_secrets = _group_secrets(domain, names)
        self.servers = {name: Server(name, domain.nodes[name], entities) for name in names}
        if domain.journal is not None:
            for server in self.servers.values():
                server.keep_journal(domain.journal, domain.domain)
                self._record_revision(domain, server)
        self._generated_secret: bytes | None = None

    async def start(self) -> None:
        """Listen everywhere, then dial."""
        for server in self.servers.values():
            self._share_secrets(server)
            await server.start()
        for server in self.servers.values():
            await self._update_links(server)

    async def reload(self, domain: Domain) -> None:
        """Apply a new domain completely, or not at all if any part does not check. Connections stay where possible."""
        for name in self.servers:
            if name not in domain.nodes:
                raise PenstockError(f"node `{name}` runs here and is not in the new domain: stop it first")
        entities = ensemble(domain, self.folder)
        group_secrets = _group_secrets(domain, self.servers)
        files = {name: server.read_files(domain.nodes[name], entities) for name, server in self.servers.items()}
        for change in diff(self.domain, domain).changes:
            log.log(logging.WARNING if change.needs_restart else logging.INFO, str(change))
        self.domain = domain
        self._group_secrets = group_secrets
        for name, server in self.servers.items():
            if server.journal is not None and domain.journal is not None:
                server.journal.settings = domain.journal
            self._record_revision(domain, server)
            server.reload(domain.nodes[name], files[name], entities)
            self._share_secrets(server)
            await self._update_links(server)

    def _record_revision(self, domain: Domain, server: Server) -> None:
        """Record in the journal which policies are in force from here on, and keep their files."""
        if server.journal is not None:
            from penstock.journal.revision import Revision

            server.journal.set_revision(Revision.of(domain, self.folder))

    async def stop(self) -> None:
        for server in self.servers.values():
            await server.stop()

    def _share_secrets(self, server: Server) -> None:
        server.node.federation.secrets = {
            name: self._secret(connection)
            for name, connection in overlay.connections(server.node)
            if name in self.domain.nodes
        }
        group_proofs.hold(server.node, self._group_secrets[server.name], server.now())

    async def _update_links(self, server: Server) -> None:
        """Make exactly the links that the domain says the node makes."""
        connections = {connection.between[1]: connection for connection in server.node.ensemble.dials(server.name)}
        terms = {name: self._terms(server, settings) for name, settings in connections.items()}
        for name, dialler in list(server.diallers.items()):
            if terms.get(name) != dialler.terms:
                del server.diallers[name]
                await dialler.stop()
        for name, connection in connections.items():
            if name not in server.diallers:
                self._dial(server, name, connection)

    def _terms(self, server: Server, connection: LinkSettings) -> tuple[LinkSettings, ForeignSettings | None, bool]:
        """Return the settings of a connection; whether the two prove groups to each other is decided when it begins."""
        name = connection.between[1]
        return _connection_settings(connection), self.domain.foreign.get(name), bool(groups.shared(server.node, name))

    def _dial(self, server: Server, name: str, connection: LinkSettings) -> None:
        neighbour = server.node.federation.neighbours[name]
        foreign = self.domain.foreign.get(name)
        if foreign is not None:
            overlay.subscribe_foreign(server.node, neighbour, foreign.out, foreign.qos)
        node = server.node
        if foreign:
            greeting = self._greet_foreign(server, foreign)
        else:
            greeting = Greeting.of_node(server.name, node.federation.secrets[name], node.limits.max_packet_size)
        tls = (foreign.tls if foreign else None) or connection.tls
        context = make_client_context(tls) if tls else None
        dialler = Dialler(server, neighbour, greeting, lambda: self._locate(connection), context)
        dialler.terms = self._terms(server, connection)
        server.diallers[name] = dialler
        dialler.start()

    def _greet_foreign(self, server: Server, foreign: ForeignSettings) -> Greeting:
        password = None
        if foreign.password_file is not None:
            password = foreign.password_file.read_bytes().strip()
        client_id = foreign.client_id or f"{self.domain.domain}-{server.name}"
        return Greeting(client_id, foreign.version, foreign.user, password, foreign.in_, foreign.qos)

    def _locate(self, connection: LinkSettings) -> Address:
        name = connection.between[1]
        foreign = self.domain.foreign.get(name)
        if connection.address is not None:
            return connection.address
        if foreign is not None:
            return foreign.address
        here = self.servers.get(name)
        if here is not None and here.listeners.bound:
            return here.listeners.bound[0]
        return self.domain.nodes[name].listeners[0].address

    def _secret(self, connection: LinkSettings) -> bytes:
        """Return the dialling node's secret: the domain's, or one that is generated and kept beside its file."""
        if connection.secret is not None:
            return connection.secret.encode()
        if connection.secret_file is not None:
            return connection.secret_file.read_bytes().strip()
        if self._generated_secret is None:
            self._generated_secret = self._read_or_make_secret()
        return self._generated_secret

    def _read_or_make_secret(self) -> bytes:
        fresh = secrets.token_hex(32).encode()
        if self.folder is None:
            return fresh
        path = self.folder / f".{self.domain.domain}.secret"
        try:
            _write_atomically(path, fresh + b"\n")
        except FileExistsError:
            secret = path.read_bytes().strip()
            if not secret:
                raise PenstockError(f"secret file `{path}` is empty") from None
            return secret
        except OSError as error:
            raise PenstockError(f"secret file `{path}` cannot be made: {error}; set `secret` on the links") from None
        return fresh


def _group_secrets(domain: Domain, names: Iterable[str]) -> dict[str, GroupSecrets]:
    """Return by node the secrets of its trust groups; raise `SecretError`."""
    by_node = {name: GroupSecrets() for name in names}
    for group, settings in domain.trust_groups.items():
        members = [name for name in settings.nodes if name in by_node]
        if members:
            try:
                for name in members:
                    by_node[name].secrets[group] = settings.secret.read(node=name)
                    by_node[name].earlier[group] = tuple(secret.read(node=name) for secret in settings.earlier)
            except SecretError as error:
                raise SecretError(f"trust group `{group}`: {error}") from None
    return by_node


def _write_atomically(path: Path, data: bytes) -> None:
    """Write a file for its owner only, atomically: nodes that start at the same time never see it empty."""
    if path.exists():
        raise FileExistsError(path)
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.link(draft, path)
    finally:
        os.unlink(draft)


def _connection_settings(connection: LinkSettings) -> LinkSettings:
    """Return the settings that need a new connection; the others are applied to one that is up."""
    fields = LinkSettings.model_fields
    return connection.model_copy(update={name: fields[name].default for name in ("forward", "queue", "type", "back")})
