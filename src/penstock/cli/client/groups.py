"""`--group NAME=file:PATH` and `--group NAME=env:VARIABLE` of `penstock pub` and `penstock sub`."""

from dataclasses import dataclass, field
from pathlib import Path

from penstock.cli.options import UsageError


@dataclass(frozen=True)
class GroupOption:
    """A trust group to prove membership of."""

    name: str
    secret: bytes = field(repr=False)

    @classmethod
    def parse(cls, text: str) -> "GroupOption":
        """Read a group's secret; raise `UsageError`."""
        name, _, place = text.partition("=")
        kind, mark, where = place.partition(":")
        if not (name and mark and where and kind in ("file", "env")):
            raise UsageError("expected NAME=file:PATH or NAME=env:VARIABLE")
        # Imported here: the other uses of the command do not wait for it.
        from penstock.domain.schema.trust import GroupSecret, SecretError

        file, env = (Path(where), None) if kind == "file" else (None, where)
        secret = GroupSecret.model_construct(file=file, env=env)
        try:
            return cls(name, secret.read())
        except SecretError as error:
            raise UsageError(str(error)) from None
