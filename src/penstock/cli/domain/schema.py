"""`penstock schema`: the JSON schema of the domain file, for editors."""

import json

from penstock.cli.parsers import command_parser
from penstock.domain.schema.domain import DomainFile

_EPILOG = """\
With the YAML language server, in the first line of a domain file:
  # yaml-language-server: $schema=penstock.schema.json
"""


def main(argv: list[str]) -> int:
    command_parser(
        "schema", "Print the JSON schema of the domain file, for editors that complete and check YAML.", _EPILOG
    ).parse_args(argv)
    print(json.dumps(json_schema(), indent=2))
    return 0


def json_schema() -> dict[str, object]:
    """Return the JSON schema of a file with all or a part of a domain."""
    schema = DomainFile.model_json_schema()
    # A file that others include may have no nodes; other required keys are inside.
    schema.pop("required", None)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Penstock domain file", **schema}
