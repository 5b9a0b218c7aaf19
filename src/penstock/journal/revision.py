"""The policies that were in force: kept beside what they decided, so that it can be judged again as it was then."""

import hashlib
from pathlib import Path
from typing import NamedTuple

from penstock.domain import Domain
from penstock.domain.write import written

FOLDER = "revisions"
DOMAIN = "domain.yaml"
_DIGITS = 16


class Revision(NamedTuple):
    """A domain and the access control files that it names, by what they say."""

    digest: str
    files: tuple[tuple[str, bytes], ...]

    @classmethod
    def of(cls, domain: Domain) -> "Revision":
        """The revision of a domain as its files are now."""
        open_ = domain.model_copy(
            update={"links": tuple(link.model_copy(update={"secret": None}) for link in domain.links)}
        )  # whoever may read the journal is not to pass for a node
        files = [(DOMAIN, written(open_).encode())]
        files += [(f"{name}.acl", node.acl.read_bytes()) for name, node in domain.nodes.items() if node.acl is not None]
        digest = hashlib.sha256()
        for name, data in files:
            digest.update(f"{name} {len(data)}\n".encode() + data)
        return cls(digest.hexdigest()[:_DIGITS], tuple(files))

    def keep(self, journal: Path) -> None:
        """Write its files into a journal, unless it has them."""
        home = journal / FOLDER / self.digest
        if home.is_dir():
            return
        draft = home.with_name(f"_{self.digest}")
        draft.mkdir(parents=True, exist_ok=True)
        for name, data in self.files:
            (draft / name).write_bytes(data)
        try:
            draft.rename(home)
        except OSError:  # another node was faster
            if not home.is_dir():
                raise
