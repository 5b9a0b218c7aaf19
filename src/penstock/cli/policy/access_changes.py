"""Commands of `penstock access` that list and change the policies of a live node, one by one."""

import argparse
import json
import sys
from typing import Any

from penstock.cli.options import UsageError
from penstock.cli.table import print_table
from penstock.client.admin import AdminClient

COMMANDS = ("list", "add", "change", "end")


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands to those of `penstock access`."""
    listing = commands.add_parser("list", help="the policies of a live node, as they are written")
    adding = commands.add_parser("add", help="add a policy to a live node, and to its file")
    changing = commands.add_parser("change", help="change a policy of a live node, by its id")
    ending = commands.add_parser("end", help="end a policy of a live node, by its id")
    for command in (listing, adding, changing, ending):
        command.add_argument("--node", required=True, metavar="URL", help="admin address, as http://127.0.0.1:8080")
        command.add_argument("--json", action="store_true", help="print JSON")
    listing.add_argument("--subject", metavar="S", help="only of this subject, as policies write it")
    for command in (adding, changing):
        command.add_argument("policy", metavar="POLICY", help="JSON with the keys of `access.policies`, with an `id`")
    adding.add_argument(
        "--file", default="", metavar="NAME", help="the file (default: the first of JSON lines, or else of CSV)"
    )
    ending.add_argument("id", metavar="ID", help="its id")
    for command in (changing, ending):
        command.add_argument("--revision", default="", metavar="R", help="refuse if the policy is not at this revision")


def run(options: argparse.Namespace) -> int:
    """Run one of the commands."""
    node = AdminClient(options.node)
    if options.command == "list":
        query = {"limit": "1000", **({"subject": options.subject} if options.subject else {})}
        _show_list(node.get("/api/access", **query), options.json)
        return 0
    path = {"add": "/api/access", "change": "/api/access/change", "end": "/api/access/end"}[options.command]
    answer = json.loads(node.ask("POST", path, json.dumps(_body(options)).encode()))
    if options.json:
        print(json.dumps(answer, indent=2))
        return 0
    done = {"add": "added to", "change": "changed in", "end": "ended: it is out of"}[options.command]
    print(f"`{answer['policy']['id']}` {done} `{answer['policy']['file']}`, and in force")
    for warning in answer["warnings"]:
        print(f"warning: {warning}", file=sys.stderr)
    return 0


def _body(options: argparse.Namespace) -> dict[str, Any]:
    if options.command == "end":
        return {"id": options.id, "revision": options.revision}
    try:
        policy = json.loads(options.policy)
    except ValueError as error:
        raise UsageError(f"POLICY: expected JSON: {error}") from None
    if not isinstance(policy, dict):
        raise UsageError("POLICY: expected a JSON object with the keys of `access.policies`")
    if options.command == "add":
        return {"policy": policy, "file": options.file}
    return {"policy": policy, "revision": options.revision}


def _show_list(answer: dict[str, Any], is_json: bool) -> None:
    if is_json:
        print(json.dumps(answer, indent=2))
        return
    rows = [
        (each["id"], each["file"] or "domain", json.dumps(each["policy"]), each["revision"] or "-")
        for each in answer["policies"]
    ]
    print_table(("policy", "file", "says", "revision"), rows)
    if answer["count"] > len(rows):
        print(f"and {answer['count'] - len(rows)} more; --subject shows those of one subject")
