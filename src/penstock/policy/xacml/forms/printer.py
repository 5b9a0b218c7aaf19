"""The printer of policies as XML."""

from collections.abc import Iterable, Iterator
from xml.sax.saxutils import escape, quoteattr

from penstock.policy.xacml import tree as xacml
from penstock.policy.xacml.names import CORE, XPATH_1
from penstock.policy.xacml.response import printable, show_attributes, show_typed

_Lines = Iterator[str]


def show_policy(root: xacml.Root) -> str:
    """Return the XML of a policy or a policy set."""
    first, *rest = _root(root)
    return "\n".join([first.replace(" ", f' xmlns="{CORE}" ', 1), *rest, ""])


def _root(root: xacml.Root) -> _Lines:
    return _policy(root) if isinstance(root, xacml.XacmlPolicy) else _policy_set(root)


def _policy(policy: xacml.XacmlPolicy) -> _Lines:
    named = f"PolicyId={quoteattr(policy.id)} Version={quoteattr(policy.version)}"
    yield f"<Policy {named} RuleCombiningAlgId={quoteattr(policy.algorithm)}>"
    yield from _indented(_described(policy.description))
    yield f"  <PolicyDefaults><XPathVersion>{XPATH_1}</XPathVersion></PolicyDefaults>"
    yield from _indented(_target(policy.target))
    for name, expression in policy.variables:
        yield f"  <VariableDefinition VariableId={quoteattr(name)}>"
        yield from _indented(_expression(expression), 2)
        yield "  </VariableDefinition>"
    for rule in policy.rules:
        yield from _indented(_rule(rule))
    yield from _indented(_duties(policy.obligations, policy.advice))
    yield "</Policy>"


def _policy_set(policy_set: xacml.XacmlPolicySet) -> _Lines:
    named = f"PolicySetId={quoteattr(policy_set.id)} Version={quoteattr(policy_set.version)}"
    yield f"<PolicySet {named} PolicyCombiningAlgId={quoteattr(policy_set.algorithm)}>"
    yield from _indented(_described(policy_set.description))
    yield from _indented(_target(policy_set.target))
    for child in policy_set.children:
        yield from _indented(_reference(child) if isinstance(child, xacml.PolicyReference) else _root(child))
    yield from _indented(_duties(policy_set.obligations, policy_set.advice))
    yield "</PolicySet>"


def _indented(lines: Iterable[str], times: int = 1) -> _Lines:
    """Indent lines; a line may contain a text with line breaks, which is not indented, as white space counts there."""
    return ("  " * times + line for line in lines)


def _described(text: str) -> _Lines:
    if text:
        yield f"<Description>{escape(printable(text))}</Description>"


def _reference(reference: xacml.PolicyReference) -> _Lines:
    tag = "PolicySetIdReference" if reference.is_set else "PolicyIdReference"
    earliest, latest = reference.earliest, reference.latest
    versions = show_attributes(Version=reference.version, EarliestVersion=earliest, LatestVersion=latest)
    yield f"<{tag}{versions}>{escape(reference.id)}</{tag}>"


def _rule(rule: xacml.XacmlRule) -> _Lines:
    yield f'<Rule RuleId={quoteattr(rule.id)} Effect="{rule.effect}">'
    yield from _indented(_described(rule.description))
    if rule.target:
        yield from _indented(_target(rule.target))
    if rule.condition is not None:
        yield "  <Condition>"
        yield from _indented(_expression(rule.condition), 2)
        yield "  </Condition>"
    yield from _indented(_duties(rule.obligations, rule.advice))
    yield "</Rule>"


def _target(target: xacml.Target) -> _Lines:
    if not target:
        yield "<Target/>"
        return
    yield "<Target>"
    for any_of in target:
        yield "  <AnyOf>"
        for all_of in any_of:
            yield "    <AllOf>"
            for match in all_of:
                yield from _indented(_match(match), 3)
            yield "    </AllOf>"
        yield "  </AnyOf>"
    yield "</Target>"


def _match(match: xacml.TargetMatch) -> _Lines:
    yield f"<Match MatchId={quoteattr(match.function)}>"
    yield from _indented(_expression(match.literal))
    yield from _indented(_expression(match.source))
    yield "</Match>"


def _expression(tree: xacml.Expression) -> _Lines:
    match tree:
        case xacml.LiteralValue(type_uri, value):
            yield show_typed("AttributeValue", "", type_uri, value)
        case xacml.Designator():
            named = show_attributes(Category=tree.category, AttributeId=tree.id, DataType=tree.type, Issuer=tree.issuer)
            yield f'<AttributeDesignator{named} MustBePresent="{str(tree.must_be_present).lower()}"/>'
        case xacml.Selector():
            prefixes = "".join(f" xmlns:{prefix}={quoteattr(uri)}" for prefix, uri in tree.prefixes)
            named = show_attributes(Category=tree.category, Path=tree.path, DataType=tree.type)
            named += show_attributes(ContextSelectorId=tree.context_id, MustBePresent=str(tree.must_be_present).lower())
            yield f"<AttributeSelector{prefixes}{named}/>"
        case xacml.FunctionName(name):
            yield f"<Function FunctionId={quoteattr(name)}/>"
        case xacml.VariableReference(name):
            yield f"<VariableReference VariableId={quoteattr(name)}/>"
        case xacml.Apply(function, arguments):
            yield f"<Apply FunctionId={quoteattr(function)}>"
            for argument in arguments:
                yield from _indented(_expression(argument))
            yield "</Apply>"


def _duties(obligations: Iterable[xacml.DutyExpression], advice: Iterable[xacml.DutyExpression]) -> _Lines:
    for duties, tag, when in ((obligations, "Obligation", "FulfillOn"), (advice, "Advice", "AppliesTo")):
        if not duties:
            continue
        yield f"<{tag}Expressions>"
        for duty in duties:
            yield f'  <{tag}Expression {tag}Id={quoteattr(duty.id)} {when}="{duty.on}">'
            for assignment in duty.assignments:
                yield from _indented(_assignment(assignment), 2)
            yield f"  </{tag}Expression>"
        yield f"</{tag}Expressions>"


def _assignment(assignment: xacml.Assignment) -> _Lines:
    named = show_attributes(AttributeId=assignment.id, Category=assignment.category, Issuer=assignment.issuer)
    yield f"<AttributeAssignmentExpression{named}>"
    yield from _indented(_expression(assignment.expression))
    yield "</AttributeAssignmentExpression>"
