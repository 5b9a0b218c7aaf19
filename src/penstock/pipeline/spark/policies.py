"""Policies where they are needed: a domain travels to Spark's workers as its files, and is compiled there, once."""

import json
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple

from penstock.domain import ClientEntry, Domain, Ensemble, ensemble, expand, load, read
from penstock.domain.compile.graph import graph
from penstock.engine.events import publishers
from penstock.engine.events.link_class import LinkClass
from penstock.engine.federation.wants import NODE_PREFIX
from penstock.engine.node import Node
from penstock.engine.sessions import placement, session_rights, subscribe
from penstock.engine.sessions.session import Session, Subscribed
from penstock.engine.trust.tokens import BETWEEN_NODES, EVERYTHING
from penstock.journal.revision import DOMAIN, FOLDER, INSTALLED, MONITORS, Revision, digest_of, installed_digest
from penstock.language.condition import Condition
from penstock.model.errors import PolicyError
from penstock.model.link import Link
from penstock.model.subject import Subject
from penstock.model.topic import parse_filter
from penstock.model.topic_tree import FilterIndex, place_index
from penstock.pipeline.errors import PipelineError
from penstock.policy.access.acl import Acl, Rights
from penstock.policy.monitors.protocol import UNLISTED
from penstock.policy.statements.advertisement import claims
from penstock.policy.tokens.rights import NO_RIGHTS, TokenRights


@dataclass(frozen=True)
class PolicyFiles:
    """A domain as files: what Spark can send to where the work is."""

    digest: str
    files: tuple[tuple[str, bytes], ...] = field(compare=False)
    folder: str
    """Where Python monitors that are not among the files are looked for, before Python's own path."""

    def compiled(self) -> "CompiledDomain":
        """Return the files compiled, once in a process."""
        return _compiled(self)

    def domain(self) -> Domain:
        """Return the domain alone, read once in a process."""
        return _domain(self)

    @property
    def may_have_contracts(self) -> bool:
        """Return whether the domain file, which is not compiled for it, has contracts, quality or privacy policies."""
        return any(_CONTRACTS.search(data) is not None for name, data in self.files if name == DOMAIN)


_CONTRACTS = re.compile(rb"^(contracts|quality|privacy):", re.MULTILINE)


@dataclass(frozen=True)
class Asker:
    """A subject whose view is asked for; `user` is what a client shows that the domain does not list."""

    name: str
    user: str | None = None
    is_neighbour: bool = False
    """A node, or a foreign broker: what is asked for is what goes on to it."""

    @property
    def label(self) -> str:
        """Return the name of the subject in tables."""
        return self.name if self.user is None else f"{self.name}@{self.user}"


_ANY = "/?"
"""In the client id of a subject that may have any: a right by client id (`%c`) is given to none with a `/` in it."""


def _new_session(node: Node, subject: Subject) -> Session:
    """Make a session with a number of its own: what is decided for a session is kept by that."""
    node.sessions.last_id += 1
    return Session(node.sessions.last_id, subject, 5)


@lru_cache(maxsize=256)
def _domain(standing: PolicyFiles) -> Domain:
    with tempfile.TemporaryDirectory() as made:
        path = Path(made) / DOMAIN
        path.write_bytes(dict(standing.files)[DOMAIN])
        return expand(read(path, {}).domain)


@lru_cache(maxsize=256)
def _compiled(standing: PolicyFiles) -> "CompiledDomain":
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for name, data in standing.files:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        domain = expand(read(folder / DOMAIN, {}).domain)
        files = {name: f"{name}.acl" for name in domain.nodes if (folder / f"{name}.acl").exists()}
        acls = {name: Acl.read(folder / file, file) for name, file in files.items()}
        kept = folder / MONITORS
        whole = ensemble(domain, kept if kept.is_dir() else Path(standing.folder))
    return CompiledDomain(standing.digest, domain, whole, acls, _modules(standing))


def _modules(standing: PolicyFiles) -> dict[str, str]:
    """Return the digests of Python monitors' modules; raises `PipelineError` if an installed one has changed."""
    digests = {}
    for name, data in standing.files:
        if name == INSTALLED:
            for module, digest in json.loads(data).items():
                if digest != installed_digest(module):
                    raise PipelineError(
                        f"module `{module}` of a Python monitor has changed since policies `{standing.digest}`: install"
                        " the version of then, or name a domain with --domain"
                    )
                digests[module] = digest
        elif name.startswith(f"{MONITORS}/"):
            digests[name.removeprefix(f"{MONITORS}/").removesuffix(".py").replace("/", ".")] = digest_of(data)
    return digests


class PublisherLink(NamedTuple):
    """Who an event came from, under a policy: the name of its link's beginning, and what the engine asks of it."""

    entity: str
    link: LinkClass


@dataclass(eq=False)
class CompiledDomain:
    """A domain, compiled, with the access control files of its nodes."""

    digest: str
    domain: Domain
    ensemble: Ensemble
    acls: Mapping[str, Acl]
    modules: Mapping[str, str]
    """The digests of Python monitors' modules."""
    _known_rights: dict[tuple[str, str, str | None], Rights | None] = field(default_factory=dict)
    _publishers: dict[tuple[str, str, str | None, str, str | None], PublisherLink | None] = field(default_factory=dict)

    def new_node(self, name: str) -> Node:
        """Return a node whose monitors have seen nothing yet."""
        limits = self.domain.nodes[name].limits
        return Node(name, limits, lambda: "", acl=self.acls.get(name), ensemble=self.ensemble)

    def publisher(
        self, node: Node, client_id: str, user: str | None, entity: str, neighbour: str | None
    ) -> PublisherLink | None:
        """Return who published, under this policy; None if it would not have been let in."""
        who = (node.name, client_id, user, entity, neighbour)
        if who not in self._publishers:
            self._publishers[who] = self._publisher(node, *who[1:])
        return self._publishers[who]

    def _publisher(
        self, node: Node, client_id: str, user: str | None, entity: str, neighbour: str | None
    ) -> PublisherLink | None:
        if neighbour is not None:
            beyond = publishers.neighbour_entry(self.ensemble, node.name, neighbour)
            if beyond is None:
                return None
            bound = claims((), beyond.advertises)
            return PublisherLink(neighbour, LinkClass(None, beyond.publish, neighbour, claims=bound))
        entry = self._listed.get((node.name, entity)) or self.ensemble.client(node.name, client_id, user)
        if entry is None or not self.ensemble.may_have_id(entry.name, client_id):
            return None
        rights = self._rights(node, client_id, user)
        return PublisherLink(entry.name, LinkClass(rights, entry.publish, claims=claims((), entry.advertises)))

    def _rights(self, node: Node, client_id: str, user: str | None) -> Rights | None:
        """Return a client's rights, made once: 100,000 of them take a while."""
        who = (node.name, client_id, user)
        if who not in self._known_rights:
            self._known_rights[who] = session_rights.rights_of(node, client_id, user)
        return self._known_rights[who]

    @cached_property
    def _listed(self) -> dict[tuple[str, str], ClientEntry]:
        return {(node, entry.name): entry for node in self.ensemble.nodes for entry in self.ensemble.listed(node)}

    def session(self, node: Node, asker: Asker) -> Session | None:
        """Return the subject as a session of a node; None if it has no place there."""
        if asker.is_neighbour:
            return self._neighbour(node, asker.name)
        shown = self.ensemble.shown(node.name, asker.name, f"{asker.name}{_ANY}")
        if shown is None and asker.name in self.ensemble.devices:
            return None
        subject = shown or Subject(asker.name, asker.user, "", f"{node.name}/0")
        session = _new_session(node, subject)
        if not placement.settle_in(node, session):
            return None
        session.rights = self._reading(node, asker, subject)
        node.sessions[session.client_id] = session
        return session

    def _reading(self, node: Node, asker: Asker, subject: Subject) -> Rights | TokenRights | None:
        """Return what a subject may read: by the access list, and by the token that nodes give it."""
        rights, tokens = self._rights(node, subject.client_id, subject.user), self.ensemble.tokens
        if tokens is None:
            return rights
        granted = tokens.granted(self.holder(asker.name, asker.user))
        if granted is None:
            return NO_RIGHTS if tokens.required else rights
        return TokenRights(*granted, rights)

    def holder(self, name: str, user: str | None) -> str:
        """Return whom a client's token names: as the domain lists it, or, if it does not, its user."""
        return name if name in self.ensemble.devices else user or ""

    @property
    def has_links(self) -> bool:
        """Return whether nodes are joined."""
        return any({*ends} <= {*self.ensemble.nodes} for ends in self.ensemble.links)

    def publishing(
        self, node: Node, client_id: str, user: str | None, entity: str, neighbour: str | None
    ) -> Session | None:
        """Return who published as a session of a node; None if it has no place there."""
        if neighbour is not None:
            return self._neighbour(node, neighbour)
        shown = self.ensemble.shown(node.name, entity) or Subject(client_id, user, "", f"{node.name}/0")
        session = _new_session(node, shown._replace(client_id=client_id, user=user))
        return session if placement.settle_in(node, session) else None

    def _neighbour(self, node: Node, name: str) -> Session | None:
        session = _new_session(node, Subject(NODE_PREFIX + name))
        session.neighbour = name
        if not placement.settle_in(node, session):
            return None
        tokens = self.ensemble.tokens
        if tokens is not None and name in self.ensemble.nodes:
            session.rights = TokenRights(EVERYTHING, tokens.shared(node.name, name) | BETWEEN_NODES)
        node.sessions[session.client_id] = session
        return session

    def monitors(self, source: str, target: str) -> tuple[object, ...]:
        """Return what the monitors of a link are made of: links with the same are edited alike."""
        monitors = self._monitors.get((source, target))
        if monitors is None:
            unlisted = (UNLISTED, target) if target in self.ensemble.nodes else (source, UNLISTED)
            monitors = self._monitors.get(unlisted, ())
        return monitors

    @cached_property
    def _monitors(self) -> dict[tuple[str, str], tuple[object, ...]]:
        joined = graph(self.domain)
        by_link: dict[tuple[str, str], tuple[object, ...]] = dict.fromkeys((*joined.links, *joined.unlisted), ())
        for name, settings in self.domain.monitors.items():
            content = self.domain.content if settings.states is not None else ()
            code = self.modules.get(settings.python.partition(":")[0]) if settings.python is not None else None
            made = (name, settings.model_dump(exclude={"link", "on"}), content, code)
            for ends in dict.fromkeys(joined.monitored(settings)):
                by_link[ends] = (*by_link[ends], made)
        return by_link


def by_name(node: Node, session: Session, topic: str) -> Subscribed:
    """Return the session's subscription to one topic by its name, with what the domain says for the client."""
    filter = parse_filter(topic)
    subscribed = Subscribed(session, topic, 2)
    everything = session.place.where
    if len(everything) > _FEW:
        session.place.where = tuple(everything[place] for place in sorted(_tree(everything).match(topic)))
    subscribed.condition = subscribe.condition_of(node, session, filter, "")
    session.place.where = everything
    return subscribed


_FEW = 32
"""Filters that are asked one after the other; among more, those that may cover a topic are found first."""
_MAX_TREES = 1000
_Where = tuple[tuple[str, Condition], ...]
_trees: dict[int, tuple[_Where, FilterIndex[int]]] = {}
"""By identity, which is quick to ask; what is found is held, so that nothing else can have it."""


def _tree(where: _Where) -> FilterIndex[int]:
    known = _trees.get(id(where))
    if known is None:
        if len(_trees) >= _MAX_TREES:
            _trees.clear()
        known = _trees[id(where)] = where, place_index(filter for filter, _ in where)
    return known[1]


def link_into(node: Node, publisher: PublisherLink) -> Link:
    """Return the link that an event came by."""
    return Link(publisher.entity, node.name, publisher.link.link_type)


@dataclass(frozen=True)
class Policies:
    """What to judge by: one domain for everything, or for each row the one that was in force."""

    by_digest: Mapping[str, PolicyFiles]
    """All domains that are known, by digest: those that rows name, and the one that stands."""
    stands: str | None
    """The digest of the domain that everything is judged by; None: each row by its own."""
    are_recorded: bool = True
    """Events came to nodes as they are here, and rows say what was decided; else nothing was decided yet."""

    @property
    def decide_again(self) -> bool:
        """Return whether decisions that were recorded may not hold."""
        return self.stands is not None or not self.are_recorded

    @property
    def may_have_contracts(self) -> bool:
        """Return whether one of the domains has contracts, so that events may carry what these attach."""
        return any(files.may_have_contracts for files in self.by_digest.values())

    @property
    def judging(self) -> Iterator["CompiledDomain"]:
        """Return the policies that may be asked, compiled here."""
        for digest in [self.stands] if self.stands is not None else self.by_digest:
            yield self.by_digest[digest].compiled()

    def of(self, revision: str | None) -> "CompiledDomain":
        """Return the policies that judge a row with this revision; raises `PipelineError`."""
        digest = self.stands or revision
        if digest is None:
            raise PipelineError("the journal does not say which policies were in force: name a domain with --domain")
        if digest not in self.by_digest:
            raise PipelineError(
                f"the journal does not have the policies `{digest}` that were in force: name a domain with --domain"
            )
        return self.by_digest[digest].compiled()

    def known(self, revision: str | None) -> "CompiledDomain | None":
        """Return the policies that were in force, if they are known and compile: a monitor's module may be gone."""
        standing = self.by_digest.get(revision) if revision is not None else None
        try:
            return None if standing is None else standing.compiled()
        except (PipelineError, PolicyError):
            return None


def as_it_stood(journal: Path, modules: Path = Path()) -> Policies:
    """Judge each row by the policies in force then. Python monitors are looked for in the folder `modules`."""
    return Policies(_kept(journal, modules), None)


def as_it_stands(domain: Path, journal: Path) -> Policies:
    """Everything is judged by one domain file; raises `DomainError`."""
    return judged_by(load(domain), domain.parent, journal)


def following(domain: Path, journal: Path) -> Policies:
    """Do as `as_it_stands`, for a journal that grows: it may come to name policies that are not there yet."""
    digest, files = Revision.of(load(domain), domain.parent)
    stands = PolicyFiles(digest, files, str(domain.parent.resolve()))
    return Policies(_Growing(stands, journal.resolve()), digest)


@dataclass(frozen=True)
class _Growing(Mapping[str, PolicyFiles]):
    """The policies that a journal keeps, looked up when they are asked for, beside those that stand."""

    stands: PolicyFiles
    journal: Path

    def __getitem__(self, digest: str) -> PolicyFiles:
        if digest == self.stands.digest:
            return self.stands
        home = self.journal / FOLDER / digest
        if not digest or not home.is_dir():
            raise KeyError(digest)
        return PolicyFiles(digest, _files(home), self.stands.folder)

    def __iter__(self) -> Iterator[str]:
        yield self.stands.digest
        yield from (home.name for home in _homes(self.journal) if home.name != self.stands.digest)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def judged_by(domain: Domain, folder: Path, journal: Path | None = None) -> Policies:
    """Everything is judged by one domain, whose Python monitors are in `folder`."""
    digest, files = Revision.of(domain, folder)
    kept = _kept(journal, folder) if journal is not None else {}
    return Policies({**kept, digest: PolicyFiles(digest, files, str(folder.resolve()))}, digest)


def _kept(journal: Path, modules: Path) -> dict[str, PolicyFiles]:
    folder = str(modules.resolve())
    return {home.name: PolicyFiles(home.name, _files(home), folder) for home in _homes(journal)}


def _homes(journal: Path) -> list[Path]:
    if not journal.is_dir():
        raise PipelineError(f"there is no journal in `{journal}`")
    return sorted((journal / FOLDER).glob("[!_]*"))


def _files(home: Path) -> tuple[tuple[str, bytes], ...]:
    paths = (path for path in sorted(home.rglob("*")) if path.is_file())
    return tuple((path.relative_to(home).as_posix(), path.read_bytes()) for path in paths)
