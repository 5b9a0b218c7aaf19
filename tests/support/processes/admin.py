"""The admin HTTP of a node, asked as the user that runs it."""

import urllib.error
import urllib.request

from penstock.client.local_token import find_token
from tests.support.processes.commands import PATIENCE


def ask(url: str, token: str | None = None) -> tuple[int, str, str]:
    """Status, content type and body, with the token that the node has left for this user."""
    base = "/".join(url.split("/", 3)[:3])
    shown = token if token is not None else find_token(base)
    question = urllib.request.Request(url, headers={"Authorization": f"Bearer {shown}"} if shown else {})
    try:
        with urllib.request.urlopen(question, timeout=PATIENCE) as answer:
            return answer.status, answer.headers["content-type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["content-type"], error.read().decode()
