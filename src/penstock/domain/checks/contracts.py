"""Checks of contracts: that they can be read, that the named clients exist, and that contracts can be met."""

from collections.abc import Iterator

from penstock.domain.problems import Entities, Loc, Remark, WrongValue, join_names, unknown
from penstock.domain.schema.contracts import attribute_types, compiled, mistakes
from penstock.domain.schema.domain import Domain
from penstock.model.topic import overlaps
from penstock.policy.contracts.contract import ConsumerContract, PrivacyRule, ProducerContract
from penstock.policy.contracts.contract_set import EVERYBODY, Contracts, effective_wants
from penstock.policy.contracts.fit import ClientFit, FitLevel, match_all
from penstock.policy.contracts.privacy import roots_of, wrong_duties
from penstock.policy.contracts.privacy_types import odd_types
from penstock.policy.xacml.functions.patterns import wrong_patterns

_MAX_PAIRS = 10_000
"""Above this number, pairs that never fit are not searched: use `penstock contracts match`."""


def check(domain: Domain) -> Iterator[WrongValue | Remark]:
    """Find contracts, situations and quality that cannot be read; unknown clients; unknown situations."""
    wrong = list(mistakes(domain))
    for path, problem in wrong:
        yield Remark(path, problem)
    missing = any(
        not file.is_file() for settings in domain.privacy for file in (*settings.policies, *settings.references)
    )
    contracts = None if wrong or missing else compiled(domain)
    if contracts is None:
        return
    situations = [situation.name for situation in contracts.situations]
    for producer in contracts.producers:
        yield from _clients(domain, ("contracts", "producers", producer.name, "producer"), producer.producers)
        for rule in producer.rules:
            at = ("contracts", "producers", producer.name, "rules", rule.id, "situation")
            yield from _situations(situations, at, rule.during | rule.outside)
    for consumer in contracts.consumers:
        yield from _situations(situations, ("contracts", "consumers", consumer.name, "situation"), consumer.situations)
        yield from _clients(domain, ("contracts", "consumers", consumer.name, "consumer"), consumer.consumers)
    for situation in contracts.situations:
        where = ("contracts", "situations", situation.name, "sources")
        yield from _clients(domain, where, situation.sources, may_be_foreign=False)
    yield from _clients(domain, ("contracts", "bring"), contracts.bring - {EVERYBODY}, may_be_foreign=False)


def warnings(domain: Domain) -> Iterator[Remark]:
    """Find contracts that can never be met or are probably not what was meant; situations that nobody can open."""
    contracts = compiled(domain)
    if contracts is None:
        return
    for index, private in enumerate(domain.privacy):
        roots = private.read()
        for wrong in wrong_duties(roots):
            yield Remark(("privacy", index, "policies"), f"{wrong}: its events are released to nobody")
        for wrong in odd_types(roots, attribute_types(domain, private)):
            yield Remark(("privacy", index, "policies"), wrong)
        for wrong in (pattern for root in roots for pattern in wrong_patterns(root)):
            yield Remark(("privacy", index, "policies"), f"{wrong}: where it applies, nothing can be decided")
    for producer in contracts.producers:
        for wrong in odd_types(roots_of(producer), contracts.attribute_types):
            yield Remark(("contracts", "producers", producer.name, "xacml"), wrong)
    if len(contracts.producers) * len(contracts.consumers) <= _MAX_PAIRS:
        pairs = list(match_all(contracts))
        yield from _never_met(contracts, pairs)
        yield from _for_nobody(contracts, pairs)
    if len(contracts.producers) * len(domain.clients) <= _MAX_PAIRS:
        yield from _without_contract(domain, contracts)
    yield from _both_private(contracts)
    yield from _unbound_capsules(domain, contracts)
    for situation in contracts.situations:
        where = ("contracts", "situations", situation.name)
        rules = [rule for producer in contracts.producers for rule in producer.rules]
        is_asked_elsewhere = bool(domain.privacy or contracts.bring)
        if not is_asked_elsewhere and not any(situation.name in rule.during | rule.outside for rule in rules):
            yield Remark(where, f"no rule speaks of situation `{situation.name}`")
        if not any(_may_publish(domain, contracts, source, situation.opens.filter) for source in situation.sources):
            what = f"nobody can open situation `{situation.name}`: its sources advertise nothing on its topics"
            yield Remark((*where, "opens"), what)


def _never_met(contracts: Contracts, pairs: list[ClientFit]) -> Iterator[Remark]:
    for consumer in contracts.consumers:
        for want in consumer.wants:
            met = [
                (pair, want_fit)
                for pair in pairs
                if pair.fit.consumer == consumer.name
                for want_fit in pair.fit.wants
                if want_fit.want == want.name and want_fit.standing is not FitLevel.UNRELATED
            ]
            if met and all(want_fit.standing is FitLevel.FAILS for _, want_fit in met):
                pair, want_fit = met[0]
                why = "; ".join(dict.fromkeys(reason for rule in want_fit.rules for reason in rule.reasons))
                what = f"no contract ever meets want `{want.name}`; contract `{pair.fit.producer}`: {why}"
                yield Remark(("contracts", "consumers", consumer.name, "wants", want.name), what)


def _for_nobody(contracts: Contracts, pairs: list[ClientFit]) -> Iterator[Remark]:
    if contracts.bring:
        return  # the receivers are not known before clients bring contracts
    for producer in contracts.producers:
        standings = [pair.fit.standing for pair in pairs if pair.fit.producer == producer.name]
        if producer.is_private and not any(standing > FitLevel.FAILS for standing in standings):
            what = f"nobody ever gets anything of contract `{producer.name}`: no consumer's contract fits it"
            yield Remark(("contracts", "producers", producer.name), what)


def _without_contract(domain: Domain, contracts: Contracts) -> Iterator[Remark]:
    """Find rules that some clients satisfy except that they have no contract as consumers. Clients that only publish
    are left out."""
    giving = {client for producer in contracts.producers for client in producer.producers}
    giving |= {client for situation in contracts.situations for client in situation.sources}
    giving |= {name for name, settings in domain.clients.items() if settings.advertises}
    for producer in contracts.producers:
        wanting = {
            client
            for consumer in contracts.consumers
            for client in consumer.consumers
            if any(overlaps(want.filter, producer.filter) for want in effective_wants(consumer))
        }
        candidates = [
            client for client in domain.clients if client not in giving | wanting and not contracts.may_bring(client)
        ]
        for rule in producer.rules:
            without = [client for client in candidates if _asks_no_more(contracts, producer, rule, client)]
            candidates = [client for client in candidates if client not in without]
            if without:
                why = "no consumer's contract about these topics; `wants: {}` would do"
                clients = join_names(without, "and")
                what = f"it releases nothing to {clients}, although they satisfy it otherwise: there is {why}"
                yield Remark(("contracts", "producers", producer.name, "rules", rule.id), what)


def _asks_no_more(contracts: Contracts, producer: ProducerContract, rule: PrivacyRule, client: str) -> bool:
    """Return whether a rule is satisfied by a client that guarantees nothing."""
    bare = contracts.of(client, ConsumerContract("none", frozenset({client}), ()))
    attributes = bare.request_attributes()
    return not any(commitment.why_not(attributes) for commitment in rule.commitments())


def _both_private(contracts: Contracts) -> Iterator[Remark]:
    private = [producer for producer in contracts.producers if producer.is_private]
    for at, producer in enumerate(private):
        for other in private[:at]:
            if producer.producers & other.producers and overlaps(producer.filter, other.filter):
                what = f"contract `{other.name}` is about some of the same events: both must release them"
                yield Remark(("contracts", "producers", producer.name, "filter"), what)


def _unbound_capsules(domain: Domain, contracts: Contracts) -> Iterator[Remark]:
    """Find capsules that read private events and publish results that everybody may read."""
    private = [
        (producer.filter, f"contract `{producer.name}`") for producer in contracts.producers if producer.is_private
    ]
    private += [(policy.filter, f"privacy policy `{policy.name}`") for policy in contracts.privacy]
    for name, capsule in domain.capsules.items():
        about = [owner for filter, owner in private if any(overlaps(filter, topic) for topic in capsule.topics)]
        into = capsule.output.filter
        bound = [producer.filter for producer in contracts.producers if capsule.client in producer.producers]
        bound += [policy.filter for policy in contracts.privacy]
        if about and not any(overlaps(filter, into) for filter in bound):
            events = f"private events ({', '.join(about)})"
            what = f"its results from {events} are under no contract: everybody may receive them"
            yield Remark(("capsules", name, "output"), what)


def _may_publish(domain: Domain, contracts: Contracts, client: str, filter: str) -> bool:
    """Return whether a client may publish on some of these topics, as far as the domain declares its advertisements."""
    settings = domain.clients.get(client)
    filters = [producer.filter for producer in contracts.producers if client in producer.producers]
    filters += [advertised.filter for advertised in settings.advertises] if settings is not None else []
    return not filters or any(overlaps(publishable, filter) for publishable in filters)


def _clients(domain: Domain, where: Loc, clients: frozenset[str], may_be_foreign: bool = True) -> Iterator[WrongValue]:
    if not domain.clients:
        return
    entities = Entities.of(domain)
    for client in sorted(clients):
        if client not in domain.clients and not (may_be_foreign and client in domain.foreign):
            yield WrongValue(where, entities.not_a_client(client), f"`{client}`")


def _situations(known: list[str], where: Loc, named: frozenset[str]) -> Iterator[WrongValue]:
    for name in sorted(named - set(known)):
        yield unknown(where, "a situation", name, known)
