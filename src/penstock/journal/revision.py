"""Revisions: the policies in force, kept beside the events that they decided, so that these can be judged again."""

import hashlib
import importlib.util
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from penstock.domain import Domain
from penstock.domain.schema.contracts import PrivacySettings
from penstock.domain.yaml.write import domain_text
from penstock.journal.private import make_folder, write_file
from penstock.policy.monitors.monitor import module_file

FOLDER = "revisions"
DOMAIN = "domain.yaml"
MONITORS = "monitors"
"""Folder of the modules of Python monitors that are beside the domain file."""
ACCESS = "access"
"""Folder of the files with access policies."""
STATEMENTS = "statements"
"""Folder of the files with policy statements."""
PRIVACY = "privacy"
"""Folder of the files with policies in XACML."""
INSTALLED = "installed.json"
"""The digests of installed monitor modules: they may depend on more than their own file."""
_DIGITS = 16


class Revision(NamedTuple):
    """A domain and the files it names (access control, policies and Python monitors), identified by their content."""

    digest: str
    files: tuple[tuple[str, bytes], ...]

    @classmethod
    def of(cls, domain: Domain, folder: Path | None = None) -> "Revision":
        """Return the revision of a domain as its files are now; `folder` is that of the domain file."""
        update: dict[str, object] = {
            "links": tuple(link.model_copy(update={"secret": None}) for link in domain.links)
        }  # a reader of the journal must not be able to pass for a node
        access = list[tuple[str, bytes]]()
        if domain.access is not None and domain.access.files:
            access = _copies(f"{ACCESS}/", domain.access.files)
            update["access"] = domain.access.model_copy(update={"files": tuple(Path(name) for name, _ in access)})
        statements = list[tuple[str, bytes]]()
        if domain.statements is not None and domain.statements.files:
            statement_files = domain.statements.files
            statements = _copies(f"{STATEMENTS}/", (file.file for file in statement_files))
            moved = [
                file.model_copy(update={"file": Path(name)})
                for file, (name, _) in zip(statement_files, statements, strict=True)
            ]
            update["statements"] = domain.statements.model_copy(update={"files": tuple(moved)})
        update["privacy"], privacy = _privacy(domain)
        files = [(DOMAIN, domain_text(domain.model_copy(update=update)).encode()), *access, *statements, *privacy]
        files += _modules(domain, folder)
        files += [(f"{name}.acl", node.acl.read_bytes()) for name, node in domain.nodes.items() if node.acl is not None]
        digest = hashlib.sha256()
        for name, data in files:
            digest.update(f"{name} {len(data)}\n".encode() + data)
        return cls(digest.hexdigest()[:_DIGITS], tuple(files))

    def keep(self, journal: Path) -> None:
        """Write its files into a journal, unless the journal has them."""
        home = journal / FOLDER / self.digest
        if home.is_dir():
            return
        draft = home.with_name(f"_{self.digest}")
        make_folder(draft)
        for name, data in self.files:
            make_folder((draft / name).parent)
            write_file(draft / name, data)
        try:
            draft.rename(home)
        except OSError:  # another node wrote it first
            if not home.is_dir():
                raise


def _copies(prefix: str, paths: Iterable[Path]) -> list[tuple[str, bytes]]:
    """Return files with the names that they have in a revision."""
    return [(f"{prefix}{at}{path.suffix}", path.read_bytes()) for at, path in enumerate(paths)]


def _privacy(domain: Domain) -> tuple[tuple[PrivacySettings, ...], list[tuple[str, bytes]]]:
    """Return the domain's XACML settings with the files renamed for the journal; and the files."""
    files: list[tuple[str, bytes]] = []

    def moved(paths: tuple[Path, ...], at: int, what: str) -> tuple[Path, ...]:
        copies = _copies(f"{PRIVACY}/{at}-{what}-", paths)
        files.extend(copies)
        return tuple(Path(name) for name, _ in copies)

    settings = []
    for at, privacy in enumerate(domain.privacy):
        policies, references = moved(privacy.policies, at, "policy"), moved(privacy.references, at, "reference")
        settings.append(privacy.model_copy(update={"policies": policies, "references": references}))
    return tuple(settings), files


def _modules(domain: Domain, folder: Path | None) -> Iterator[tuple[str, bytes]]:
    places = {settings.python for settings in domain.monitors.values() if settings.python is not None}
    if domain.trust is not None and domain.trust.evidence.evaluate is not None:
        places.add(domain.trust.evidence.evaluate)
    installed = {}
    for name in sorted({place.partition(":")[0] for place in places}):
        file = module_file(name, folder)
        if file is not None:
            yield f"{MONITORS}/{name.replace('.', '/')}.py", file.read_bytes()
        else:
            installed[name] = installed_digest(name)
    if installed:
        yield INSTALLED, json.dumps(installed, indent=2, sort_keys=True).encode()


def installed_digest(module_name: str) -> str | None:
    """Return the digest of an installed module's file; None if it has no file."""
    try:
        spec = importlib.util.find_spec(module_name)
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None or not Path(spec.origin).is_file():
        return None
    return digest_of(Path(spec.origin).read_bytes())


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:_DIGITS]
