"""Checks of contracts: that they can be read, that those who are named exist, and that they can come to something."""

from __future__ import annotations

import re
from collections.abc import Iterator

from penstock.domain.finding import Entities, Finding, Said, hint, listed
from penstock.domain.schema.contracts import compiled, given, mistakes
from penstock.domain.schema.domain import Domain
from penstock.model.topic import overlaps
from penstock.model.yaml.tree import Step
from penstock.policy.contracts.contract import (
    ConsumerContract,
    PrivacyRule,
    ProducerContract,
    commitments,
    request_attributes,
)
from penstock.policy.contracts.contract_set import EVERYBODY, Contracts, said_wants
from penstock.policy.contracts.fit import ClientFit, FitLevel, match_all
from penstock.policy.contracts.privacy import wrong_duties
from penstock.policy.contracts.privacy_types import odd_types
from penstock.policy.xacml.functions.patterns import wrong_patterns

_MOST_PAIRS = 10_000
"""Of more, it is not looked for those that never fit: `penstock contracts match` tells."""


def check(domain: Domain) -> Iterator[Finding | Said]:
    """Contracts, situations and quality that cannot be read; clients that do not exist; situations that nobody has."""
    wrong = list(mistakes(domain))
    for path, problem in wrong:
        yield Said(path, problem)
    missing = any(not file.is_file() for one in domain.privacy for file in (*one.policies, *one.references))
    contracts = None if wrong or missing else compiled(domain)
    if contracts is None:
        return
    known = [one.name for one in contracts.situations]
    for producer in contracts.producers:
        yield from _clients(domain, ("contracts", "producers", producer.name, "producer"), producer.producers)
        for rule in producer.rules:
            at = ("contracts", "producers", producer.name, "rules", rule.id, "situation")
            yield from _situations(known, at, rule.during | rule.outside)
    for consumer in contracts.consumers:
        yield from _situations(known, ("contracts", "consumers", consumer.name, "situation"), consumer.situations)
        yield from _clients(domain, ("contracts", "consumers", consumer.name, "consumer"), consumer.consumers)
    for situation in contracts.situations:
        where = ("contracts", "situations", situation.name, "sources")
        yield from _clients(domain, where, situation.sources, may_be_foreign=False)
    yield from _clients(domain, ("contracts", "bring"), contracts.bring - {EVERYBODY}, may_be_foreign=False)


def warnings(domain: Domain) -> Iterator[Said]:
    """Contracts that never come to anything, or not to what they seem to; situations that nobody can open."""
    contracts = compiled(domain)
    if contracts is None:
        return
    for index, private in enumerate(domain.privacy):
        roots = private.read()
        for wrong in wrong_duties(roots):
            yield Said(("privacy", index, "policies"), f"{wrong}: what it is for is released to nobody")
        for wrong in odd_types(roots, given(domain, private)):
            yield Said(("privacy", index, "policies"), wrong)
        for wrong in (one for root in roots for one in wrong_patterns(root)):
            yield Said(("privacy", index, "policies"), f"{wrong}: where it is asked, nothing can be decided")
    if len(contracts.producers) * len(contracts.consumers) <= _MOST_PAIRS:
        pairs = list(match_all(contracts))
        yield from _never_met(contracts, pairs)
        yield from _for_nobody(contracts, pairs)
    if len(contracts.producers) * len(domain.clients) <= _MOST_PAIRS:
        yield from _without_contract(domain, contracts)
    yield from _both_private(contracts)
    yield from _unbound_capsules(domain, contracts)
    for situation in contracts.situations:
        where = ("contracts", "situations", situation.name)
        rules = [rule for one in contracts.producers for rule in one.rules]
        is_asked_elsewhere = bool(domain.privacy or contracts.bring)
        if not is_asked_elsewhere and not any(situation.name in rule.during | rule.outside for rule in rules):
            yield Said(where, f"no rule speaks of situation `{situation.name}`")
        if not any(_may_publish(domain, contracts, source, situation.opens.filter) for source in situation.sources):
            what = f"nobody can open situation `{situation.name}`: its sources advertise nothing on its topics"
            yield Said((*where, "opens"), what)


def _never_met(contracts: Contracts, pairs: list[ClientFit]) -> Iterator[Said]:
    for consumer in contracts.consumers:
        for want in consumer.wants:
            met = [
                (pair, one)
                for pair in pairs
                if pair.fit.consumer == consumer.name
                for one in pair.fit.wants
                if one.want == want.name and one.standing is not FitLevel.UNRELATED
            ]
            if met and all(one.standing is FitLevel.FAILS for _, one in met):
                pair, one = met[0]
                why = "; ".join(dict.fromkeys(reason for rule in one.rules for reason in rule.reasons))
                what = f"no contract ever meets want `{want.name}`; contract `{pair.fit.producer}`: {why}"
                yield Said(("contracts", "consumers", consumer.name, "wants", want.name), what)


def _for_nobody(contracts: Contracts, pairs: list[ClientFit]) -> Iterator[Said]:
    if contracts.bring:
        return  # who gets it, clients will say
    for producer in contracts.producers:
        found = [pair.fit.standing for pair in pairs if pair.fit.producer == producer.name]
        if producer.is_private and not any(one > FitLevel.FAILS for one in found):
            what = f"nobody ever gets anything of contract `{producer.name}`: no consumer's contract fits it"
            yield Said(("contracts", "producers", producer.name), what)


def _without_contract(domain: Domain, contracts: Contracts) -> Iterator[Said]:
    """Rules that ask nothing which some clients do not have, but a contract as consumers. Those that are there to
    publish are left out.
    """
    giving = {client for one in contracts.producers for client in one.producers}
    giving |= {client for one in contracts.situations for client in one.sources}
    giving |= {name for name, settings in domain.clients.items() if settings.advertises}
    for producer in contracts.producers:
        wanting = {
            client
            for one in contracts.consumers
            for client in one.consumers
            if any(overlaps(want.filter, producer.filter) for want in said_wants(one))
        }
        left = [one for one in domain.clients if one not in giving | wanting and not contracts.may_bring(one)]
        for rule in producer.rules:
            found = [client for client in left if _asks_no_more(contracts, producer, rule, client)]
            left = [client for client in left if client not in found]
            if found:
                why = "no consumer's contract about these topics; `wants: {}` would do"
                what = f"nothing is given by it to {listed(found, 'and')}, of whom it asks no more: there is {why}"
                yield Said(("contracts", "producers", producer.name, "rules", rule.id), what)


def _asks_no_more(contracts: Contracts, producer: ProducerContract, rule: PrivacyRule, client: str) -> bool:
    """Whether a rule asks nothing that is not known of a client which guarantees nothing."""
    bare = contracts.of(client, ConsumerContract("none", frozenset({client}), ()))
    asked = request_attributes(bare)
    return not any(one.why_not(asked) for one in commitments(rule))


def _both_private(contracts: Contracts) -> Iterator[Said]:
    private = [one for one in contracts.producers if one.is_private]
    for at, one in enumerate(private):
        for other in private[:at]:
            if one.producers & other.producers and overlaps(one.filter, other.filter):
                what = f"contract `{other.name}` is about some of the same events: both must release them"
                yield Said(("contracts", "producers", one.name, "filter"), what)


def _unbound_capsules(domain: Domain, contracts: Contracts) -> Iterator[Said]:
    """Capsules that are given what is private, and give what they make of it to everybody."""
    private = [(one.filter, f"contract `{one.name}`") for one in contracts.producers if one.is_private]
    private += [(one.filter, f"privacy policy `{one.name}`") for one in contracts.privacy]
    for name, capsule in domain.capsules.items():
        about = [who for filter, who in private if any(overlaps(filter, topic) for topic in capsule.input.topics)]
        into = re.sub(r"[^/]*\{[^/]*", "+", capsule.output.topic)  # a level that the group says something of
        bound = [one.filter for one in contracts.producers if capsule.client in one.producers]
        bound += [one.filter for one in contracts.privacy]
        if about and not any(overlaps(filter, into) for filter in bound):
            what = f"what it makes of private events ({', '.join(about)}) is under no contract: everybody may have it"
            yield Said(("capsules", name, "output"), what)


def _may_publish(domain: Domain, contracts: Contracts, client: str, filter: str) -> bool:
    """Whether a client may publish on some of these topics, as far as the domain says what it advertises."""
    settings = domain.clients.get(client)
    said = [one.filter for one in contracts.producers if client in one.producers]
    said += [one.filter for one in settings.advertises] if settings is not None else []
    return not said or any(overlaps(one, filter) for one in said)


def _clients(
    domain: Domain, where: tuple[Step, ...], clients: frozenset[str], may_be_foreign: bool = True
) -> Iterator[Finding]:
    if not domain.clients:
        return
    entities = Entities.of(domain)
    for client in sorted(clients):
        if client not in domain.clients and not (may_be_foreign and client in domain.foreign):
            kind = entities.kind(client)
            expected = f"and `{client}` is {kind}" if kind else hint(client, entities.clients)
            yield Finding(where, f"a client, {expected}", f"`{client}`")


def _situations(known: list[str], where: tuple[Step, ...], named: frozenset[str]) -> Iterator[Finding]:
    for name in sorted(named - set(known)):
        yield Finding(where, f"a situation, {hint(name, known)}", f"`{name}`")
