"""Writes the tables of settings in the docs from the models that validate the domain file.

Run `python -m scripts.settings_table` after a change to `penstock.domain.schema.domain`; tests compare the pages with
what this would write.
"""

import re
import types
from enum import Enum
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from penstock.domain import (
    ClientSettings,
    ForeignSettings,
    LimitSettings,
    LinkSettings,
    LinkTls,
    Listener,
    Log,
    NodeSettings,
    Tls,
)
from penstock.domain.patterns.settings import Hierarchy, Interface, Levels, Role, Roles
from penstock.domain.schema.access import AccessControl, AccessSettings, ValidSettings
from penstock.domain.schema.admin import AdminSettings
from penstock.domain.schema.base import keys
from penstock.domain.schema.capsules import (
    AggregateSettings,
    CapsuleInputSettings,
    CapsuleOperation,
    CapsuleOutputSettings,
    CapsuleSettings,
    CapsuleWindowSettings,
    FuseSettings,
    InferenceRule,
    LatestSettings,
    SilenceSettings,
)
from penstock.domain.schema.contents import AdvertisementSettings, ContentRule
from penstock.domain.schema.contracts import CollectSettings, ContractSettings, PrivacySettings, QualitySettings
from penstock.domain.schema.domain import JournalSettings
from penstock.domain.schema.federation import LinkTypes
from penstock.domain.schema.policies import (
    AssertionSettings,
    BrokeringRule,
    BrokeringSettings,
    EdgeSettings,
    MonitorSettings,
    NodeSide,
    OutputSettings,
    ProtocolSettings,
)
from penstock.domain.schema.statements import ApplySettings, PolicyFile, PolicyGrantSettings, StatementSettings
from penstock.domain.schema.tests import (
    AdvertiseStep,
    ExpectedMessage,
    ExpectedVerdict,
    PolicyTestStep,
    PublishStep,
    SetPolicyStep,
    SubscribeStep,
)
from penstock.domain.schema.tokens import NeighbourSettings, TokenGrantSettings, TokenSettings
from penstock.domain.schema.trust import (
    BeginSettings,
    EvidenceSettings,
    ExpectedRating,
    FeedbackSettings,
    GroupSecret,
    NodeTrust,
    RateStep,
    ShownToken,
    TrustGroupSettings,
    TrustSettings,
)

_DOCS = Path(__file__).parent.parent / "docs"
PAGE = _DOCS / "running.md"
TABLES: tuple[tuple[str, type[BaseModel]], ...] = (
    ("nodes.NAME", NodeSettings),
    ("nodes.NAME.listen", Listener),
    ("nodes.NAME.listen.tls", Tls),
    ("nodes.NAME.log", Log),
    ("nodes.NAME.limits", LimitSettings),
)
DOMAIN_PAGE = _DOCS / "domain.md"
DOMAIN_TABLES: tuple[tuple[str, type[BaseModel]], ...] = (
    ("links", LinkSettings),
    ("links.tls", LinkTls),
    ("foreign.NAME", ForeignSettings),
    ("clients.NAME", ClientSettings),
    ("clients.NAME.type", LinkTypes),
    ("clients.NAME.advertises", AdvertisementSettings),
    ("content", ContentRule),
    ("brokering", BrokeringSettings),
    ("brokering.allow", BrokeringRule),
    ("monitors.NAME", MonitorSettings),
    ("monitors.NAME.on", NodeSide),
    ("monitors.NAME.states.STATE.FILTER", EdgeSettings),
    ("monitors.NAME.states.STATE.FILTER.emit", OutputSettings),
    ("protocols.NAME", ProtocolSettings),
    ("assertions", AssertionSettings),
    ("patterns.hierarchy", Hierarchy),
    ("patterns.levels", Levels),
    ("patterns.interface", Interface),
    ("patterns.roles", Roles),
    ("patterns.roles.roles.ROLE", Role),
)
TEST_PAGE = _DOCS / "testing-policies.md"
TEST_TABLES: tuple[tuple[str, type[BaseModel]], ...] = (
    ("tests.TITLE.steps", PolicyTestStep),
    ("tests.TITLE.steps.publish", PublishStep),
    ("tests.TITLE.steps.subscribe", SubscribeStep),
    ("tests.TITLE.steps.advertise", AdvertiseStep),
    ("tests.TITLE.steps.set_policy", SetPolicyStep),
    ("tests.TITLE.steps.expect", ExpectedMessage),
    ("tests.TITLE.steps.verdicts", ExpectedVerdict),
    ("tests.TITLE.steps.show", ShownToken),
    ("tests.TITLE.steps.rate", RateStep),
    ("tests.TITLE.steps.ratings", ExpectedRating),
)
JOURNAL_PAGE = _DOCS / "journal.md"
JOURNAL_TABLES: tuple[tuple[str, type[BaseModel]], ...] = (("journal", JournalSettings),)
ACCESS_PAGE = _DOCS / "access.md"
ACCESS_TABLES: tuple[tuple[str, type[BaseModel]], ...] = (
    ("access", AccessControl),
    ("access.policies", AccessSettings),
    ("access.policies.valid", ValidSettings),
)
TRUST_PAGE = _DOCS / "trust-groups.md"
TRUST_TABLES: tuple[tuple[str, type[BaseModel]], ...] = (
    ("trust_groups.NAME", TrustGroupSettings),
    ("trust_groups.NAME.secret", GroupSecret),
)
STATEMENTS_PAGE = _DOCS / "statements.md"
STATEMENTS_TABLES: tuple[tuple[str, type[BaseModel]], ...] = (
    ("statements", StatementSettings),
    ("statements.files", PolicyFile),
    ("statements.apply", ApplySettings),
    ("statements.grants", PolicyGrantSettings),
)
TOKEN_PAGE = _DOCS / "tokens.md"
TOKEN_TABLES: tuple[tuple[str, type[BaseModel]], ...] = (
    ("tokens", TokenSettings),
    ("tokens.grants", TokenGrantSettings),
    ("tokens.neighbours", NeighbourSettings),
)
RATINGS_PAGE = _DOCS / "trust.md"
RATINGS_TABLES: tuple[tuple[str, type[BaseModel]], ...] = (
    ("trust", TrustSettings),
    ("trust.begin", BeginSettings),
    ("trust.evidence", EvidenceSettings),
    ("trust.feedback", FeedbackSettings),
    ("nodes.NAME.trust", NodeTrust),
)
CAPSULES_PAGE = _DOCS / "capsules.md"
CAPSULES_TABLES: tuple[tuple[str, type[BaseModel]], ...] = (
    ("capsules.NAME", CapsuleSettings),
    ("capsules.NAME.input", CapsuleInputSettings),
    ("capsules.NAME.input.silence", SilenceSettings),
    ("capsules.NAME.window", CapsuleWindowSettings),
    ("capsules.NAME.operations", CapsuleOperation),
    ("capsules.NAME.operations.aggregate", AggregateSettings),
    ("capsules.NAME.operations.fuse", FuseSettings),
    ("capsules.NAME.operations.latest", LatestSettings),
    ("capsules.NAME.operations.infer", InferenceRule),
    ("capsules.NAME.output", CapsuleOutputSettings),
)
ADMIN_PAGE = _DOCS / "admin-api.md"
ADMIN_TABLES: tuple[tuple[str, type[BaseModel]], ...] = (("admin", AdminSettings),)
CONTRACTS_PAGE, QUALITY_PAGE, XACML_PAGE = (_DOCS / f"{name}.md" for name in ("contracts", "quality", "xacml"))
CONTRACTS_TABLES: tuple[tuple[str, type[BaseModel]], ...] = (("contracts", ContractSettings),)
QUALITY_TABLES: tuple[tuple[str, type[BaseModel]], ...] = (
    ("quality", QualitySettings),
    ("quality.collectors", CollectSettings),
)
XACML_TABLES: tuple[tuple[str, type[BaseModel]], ...] = (("privacy", PrivacySettings),)
PAGES = (
    (CONTRACTS_PAGE, CONTRACTS_TABLES),
    (QUALITY_PAGE, QUALITY_TABLES),
    (XACML_PAGE, XACML_TABLES),
    (ADMIN_PAGE, ADMIN_TABLES),
    (TOKEN_PAGE, TOKEN_TABLES),
    (RATINGS_PAGE, RATINGS_TABLES),
    (PAGE, TABLES),
    (DOMAIN_PAGE, DOMAIN_TABLES),
    (TEST_PAGE, TEST_TABLES),
    (JOURNAL_PAGE, JOURNAL_TABLES),
    (ACCESS_PAGE, ACCESS_TABLES),
    (TRUST_PAGE, TRUST_TABLES),
    (STATEMENTS_PAGE, STATEMENTS_TABLES),
    (CAPSULES_PAGE, CAPSULES_TABLES),
)
_MIB = 2**20
_BLOCK = re.compile(r"(<!-- settings of (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


def with_tables(page: str) -> str:
    """The page with the table of each marked block as the models say it today."""
    models = {path: model for _, tables in PAGES for path, model in tables}
    return _BLOCK.sub(lambda match: f"{match[1]}{table(models[match[2]])}{match[3]}", page)


def table(model: type[BaseModel]) -> str:
    stated = model.model_json_schema()["properties"]
    rows = [
        f"| `{key}` | {default_text(field, stated[key])} | {description(field)} |\n" for key, _, field in keys(model)
    ]
    return "| key | default | meaning |\n| --- | --- | --- |\n" + "".join(rows)


def default_text(field: FieldInfo, schema: dict[str, Any]) -> str:
    value: Any = field.default
    if field.is_required():
        return "required"
    if "default" not in schema:
        return "depends"
    if value is None:
        return "unset"
    if isinstance(value, BaseModel):
        return "see below"
    if value in ((), {}, ""):
        return "none"
    if isinstance(schema["default"], str):
        return f"`{schema['default']}`"
    if isinstance(value, tuple):
        return ", ".join(f"`{item}`" for item in value)
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, int) and value >= _MIB and value % _MIB == 0:
        return f"`{value // _MIB} MiB`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def description(field: FieldInfo) -> str:
    choices = [f"`{choice}`" for choice in _choices(field.annotation)]
    text = (field.description or "").replace("|", "\\|")
    return f"{text}; one of {', '.join(choices)}" if len(choices) > 1 else text


def _choices(annotation: Any) -> tuple[Any, ...]:
    """The values of a `Literal` or of an enumeration, inside a union too."""
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return tuple(member.value for member in annotation)
    if get_origin(annotation) in (Union, types.UnionType):
        return tuple(choice for part in get_args(annotation) for choice in _choices(part))
    return ()


if __name__ == "__main__":
    for page, _ in PAGES:
        page.write_text(with_tables(page.read_text(encoding="utf-8")), encoding="utf-8")
