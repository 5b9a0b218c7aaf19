"""Random policies and requests over few attributes and values, so that much matches, fails, and is missing."""

from random import Random

from penstock.policy.xacml import RequestAttribute, RequestCategory
from penstock.policy.xacml.evaluation.algorithms import POLICY_ALGORITHMS, RULE_ALGORITHMS
from penstock.policy.xacml.names import CEL, FUNCTION_1, FUNCTION_3, INTEGER, RESOURCE, STRING, SUBJECT
from penstock.policy.xacml.request import Single
from penstock.policy.xacml.tree import (
    AllOf,
    AnyOf,
    Apply,
    Assignment,
    Designator,
    DutyExpression,
    Expression,
    FunctionName,
    LiteralValue,
    PolicyReference,
    Root,
    Target,
    TargetMatch,
    VariableReference,
    XacmlEffect,
    XacmlPolicy,
    XacmlPolicySet,
    XacmlRule,
)

EQUAL = FUNCTION_1 + "string-equal"
_MATCHES = (EQUAL, EQUAL, EQUAL, EQUAL, FUNCTION_1 + "string-regexp-match")
"""A pattern that is none fails, so that targets fail in more than one way."""
_CONDITIONS = ("subject.x == 'a'", "has(subject.x)", "!has(subject.x) || subject.x > 'a'")


class Maker:
    """Makes trees and requests from one seed."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._count = 0

    def _name(self) -> str:
        self._count += 1
        return f"n{self._count}"

    def word(self) -> LiteralValue:
        return LiteralValue(STRING, self._random.choice("aabbcc("))

    def number(self) -> LiteralValue:
        return LiteralValue(INTEGER, self._random.randrange(4))

    def designator(self, kind: str = STRING) -> Designator:
        return Designator(
            self._random.choice((SUBJECT, RESOURCE)),
            self._random.choice("xy") if kind == STRING else "n",
            kind,
            self._random.random() < 0.4,
            self._random.choice((None, None, None, None, "hr")),
        )

    # --- targets

    def match(self) -> TargetMatch:
        return TargetMatch(self._random.choice(_MATCHES), self.word(), self.designator())

    def all_of(self) -> AllOf:
        return tuple(self.match() for _ in range(self._random.choice((1, 1, 2))))

    def any_of(self) -> AnyOf:
        return tuple(self.all_of() for _ in range(self._random.choice((1, 1, 2, 3))))

    def target(self) -> Target:
        return tuple(self.any_of() for _ in range(self._random.choice((0, 0, 1, 1, 2))))

    # --- expressions

    def condition(self, depth: int = 2, variable: str | None = "v") -> Expression:
        if depth and self._random.random() < 0.5:
            name = self._random.choice(("and", "or", "not", "n-of"))
            if name == "not":
                return Apply(FUNCTION_1 + name, (self.condition(depth - 1, variable),))
            several = tuple(self.condition(depth - 1, variable) for _ in range(self._random.randrange(4)))
            return Apply(FUNCTION_1 + name, (self.number(), *several) if name == "n-of" else several)
        return self._leaf(variable)

    def _leaf(self, variable: str | None) -> Expression:
        match self._random.randrange(7 if variable is not None else 6):
            case 0:
                return Apply(EQUAL, (self._one(STRING), self.word()))
            case 1:
                return Apply(FUNCTION_1 + "integer-less-than", (self._one(INTEGER), self.number()))
            case 2:
                return Apply(FUNCTION_1 + "string-is-in", (self.word(), self.designator()))
            case 3:
                function = FunctionName(FUNCTION_1 + self._random.choice(("string-equal", "string-regexp-match")))
                name = FUNCTION_3 + self._random.choice(("any-of", "all-of"))
                return Apply(name, (function, self.word(), self.designator()))
            case 4:
                name = self._random.choice(("any-of-any", "all-of-any", "any-of-all", "all-of-all"))
                return Apply(FUNCTION_1 + name, (FunctionName(EQUAL), self.designator(), self.designator()))
            case 5:
                text = LiteralValue(STRING, self._random.choice(_CONDITIONS))
                return Apply(CEL, (text, LiteralValue(STRING, "subject.x"), self.designator()))
        assert variable is not None
        return VariableReference(variable)

    def _one(self, kind: str) -> Expression:
        name = "string" if kind == STRING else "integer"
        return Apply(f"{FUNCTION_1}{name}-one-and-only", (self.designator(kind),))

    # --- policies

    def duties(self) -> tuple[DutyExpression, ...]:
        return tuple(
            DutyExpression(self._name(), self._random.choice(list(XacmlEffect)), self._assignments())
            for _ in range(self._random.choice((0, 0, 0, 1, 2)))
        )

    def _assignments(self) -> tuple[Assignment, ...]:
        choices = (self.word, self.designator, lambda: self._one(STRING))
        return tuple(Assignment("a", self._random.choice(choices)()) for _ in range(self._random.randrange(2)))

    def rule(self) -> XacmlRule:
        condition = self.condition() if self._random.random() < 0.6 else None
        effect = self._random.choice(list(XacmlEffect))
        return XacmlRule(self._name(), effect, self.target(), condition, self.duties(), self.duties())

    def policy(self) -> XacmlPolicy:
        return XacmlPolicy(
            self._name(),
            "1.0",
            self._random.choice(list(RULE_ALGORITHMS)),
            self.target(),
            tuple(self.rule() for _ in range(self._random.randrange(8))),
            (("v", self.condition(variable=None)), ("w", VariableReference("v"))),
            self.duties(),
            self.duties(),
        )

    def root(self, depth: int = 2) -> Root:
        """A policy or a set; references are to `shared`."""
        if not depth or self._random.random() < 0.3:
            return self.policy()
        children: list[XacmlPolicy | XacmlPolicySet | PolicyReference] = [
            self.root(depth - 1) for _ in range(self._random.randrange(7))
        ]
        if self._random.random() < 0.3:
            children.append(PolicyReference("shared", False, self._random.choice((None, "2.+", "*.1"))))
        return XacmlPolicySet(
            self._name(),
            "1.0",
            self._random.choice(list(POLICY_ALGORITHMS)),
            self.target(),
            tuple(children),
            self.duties(),
            self.duties(),
        )

    # --- requests

    def request(self) -> Single:
        return tuple(
            RequestCategory(category, tuple(self._attribute() for _ in range(self._random.randrange(4))))
            for category in (SUBJECT, RESOURCE)
        )

    def _attribute(self) -> RequestAttribute:
        count = self._random.choice((1, 1, 2))
        if self._random.random() < 0.3:
            return RequestAttribute("n", tuple(self.number() for _ in range(count)))
        issuer = self._random.choice((None, "hr"))
        return RequestAttribute(self._random.choice("xy"), tuple(self.word() for _ in range(count)), issuer)
