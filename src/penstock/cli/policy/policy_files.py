"""Policy statements on command lines: text, or files in any of the forms."""

from pathlib import Path

from penstock.cli.options import UsageError
from penstock.language.errors import StatementError
from penstock.language.statements.statement import Statement
from penstock.model.errors import DomainError

FORMS = ("text", "yaml", "json", "xml")
_SUFFIXES = {".yaml": "yaml", ".yml": "yaml", ".json": "json", ".xml": "xml"}


def form_of(file: str) -> str:
    """Return the form of a file by its name."""
    return _SUFFIXES.get(Path(file).suffix.lower(), "text")


def read_form(data: bytes, form: str) -> Statement:
    """Parse a statement in a form; raise `StatementError`."""
    # Imported here: each form needs its own modules.
    if form == "xml":
        from penstock.language.statements.xml import from_xml

        return from_xml(data)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise StatementError(f"this is not UTF-8 text: {error.reason} at byte {error.start}") from None
    if form == "text":
        from penstock.language.statements.parser import parse_statement

        return parse_statement(text)
    from penstock.language.statements.plain import from_plain
    from penstock.model.yaml.document import read_values

    try:
        return from_plain(read_values(text))  # JSON is YAML
    except DomainError as error:
        raise StatementError(f"this is not {form.upper()}: {'; '.join(map(str, error.problems))}") from None


def policy_option(word: str) -> str:
    """Return the policy of an option as it is sent: its text, or `@FILE`; raise `UsageError`."""
    from penstock.client.policies import text_of

    try:
        if not word.startswith("@"):
            return text_of(word)
        file = word[1:]
        return text_of(read_form(Path(file).read_bytes(), form_of(file)))
    except OSError as error:
        raise UsageError(f"cannot read `{error.filename}`: {error.strerror}") from error
    except StatementError as error:
        raise UsageError(str(error)) from error
