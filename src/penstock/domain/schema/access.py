"""Access to Sparkplug messages in the domain file (sparkplug Definition 1)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from penstock.domain.schema.base import OneOrMany, Settings, Short, TopicFilter
from penstock.domain.schema.contents import ConditionText
from penstock.domain.units import mistake
from penstock.domain.yaml.files import FileRole
from penstock.language.types import ANYTHING
from penstock.model.errors import PolicyError
from penstock.policy.sparkplug.bulk_files import read_policies
from penstock.policy.sparkplug.policies import AccessPolicy, parse_subject
from penstock.policy.sparkplug.validity import Validity, make_validity


def _check_subject(value: str) -> str:
    try:
        parse_subject(value)
    except PolicyError as error:
        raise mistake(f"a subject: {error}") from None
    return value


class ValidSettings(Settings):
    """Times at which a policy is valid."""

    from_: str = Field(
        "",
        alias="from",
        description="the first moment at which it is valid: a date, with or without a time (`2026-12-01T08:00:00Z`);"
        " or, with `until`, a time of the day (`08:00`)",
    )
    until: str = Field("", description="the moment at which it is no longer valid, written as `from`")
    on: Annotated[tuple[Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"], ...], OneOrMany("a day")] = Field(
        (), description="days of the week; unset: all. Hours past midnight belong to the day on which they begin"
    )
    zone: str = Field("", description="the zone of times without one, of hours and days: `Europe/Rome`; unset: UTC")

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.compiled()
        return self

    def compiled(self) -> Validity | None:
        """Return the times."""
        try:
            return make_validity(self.from_, self.until, self.on, self.zone)
        except PolicyError as error:
            raise mistake(f"times at which a policy is valid: {error}") from None


class AccessSettings(Settings):
    """One policy, or several that differ in subject, topics or privilege."""

    subject: Annotated[tuple[Annotated[str, AfterValidator(_check_subject)], ...], OneOrMany("a subject")] = Field(
        description="the subject, or a list: a client id, `GROUP/EDGE` for an edge node, `user:NAME`,"
        " `group:NAME`, or `*` for everybody"
    )
    topics: Annotated[tuple[TopicFilter, ...], OneOrMany("a topic filter")] = Field(
        description="topic filter, or a list, of the messages that the policy covers"
    )
    may: Annotated[tuple[Literal["read", "write"], ...], OneOrMany("`read` or `write`")] = Field(
        description="`read`, `write`, or both as a list"
    )
    except_: Annotated[tuple[str, ...], OneOrMany()] = Field(
        (), alias="except", description="metrics that are excluded: names, or patterns with `*` and `?`"
    )
    when: ConditionText | None = Field(
        None,
        description="condition under which it applies, over metrics by name, `metrics`, `message`, `subject` and `now`;"
        " unset: always",
    )
    valid: ValidSettings | None = Field(None, description="times at which it is valid; unset: always")
    id: str | None = Field(None, min_length=1, description="its name in explanations; unset: its location")

    def policies(self, place: str) -> Iterator[AccessPolicy]:
        """Return the policies that it stands for."""
        condition = None if self.when is None else self.when.compiled(ANYTHING)
        valid = None if self.valid is None else self.valid.compiled()
        named = self.id or place
        for subject in self.subject:
            for filter in self.topics:
                for privilege in self.may:
                    about = (parse_subject(subject), filter, self.except_, privilege)
                    yield AccessPolicy(*about, condition, named, valid)


class AccessControl(Settings):
    """Policies on reading and writing Sparkplug messages and their metrics."""

    policies: tuple[AccessSettings, ...] = Field((), description="policies; everything that no policy grants is denied")
    files: Annotated[tuple[Path, ...], OneOrMany(), FileRole.READ] = Field(
        (), description="files with more policies: CSV (.csv) or JSON lines (.jsonl)"
    )
    certificates: bool = Field(
        True,
        description="whether births are retained under `$sparkplug/certificates/`, for clients that may read"
        " them; nodes with links always retain them, because neighbours need them",
    )

    def compiled(self) -> list[AccessPolicy]:
        """Return all policies; raise `PolicyError` if a file cannot be read."""
        policies = [
            policy
            for number, settings in enumerate(self.policies)
            for policy in settings.policies(f"access.policies[{number}]")
        ]
        for file in self.files:
            policies += read_policies(file)
        return policies


Access = Annotated[AccessControl, Short.of_list("policies")]
