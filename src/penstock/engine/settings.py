"""The settings of a node: admission, and the process that runs it."""

from collections.abc import Callable

from penstock.domain import Domain, Listener, NodeSettings
from penstock.domain.compile.ensemble import Ensemble, ensemble
from penstock.domain.units import Address
from penstock.policy.access.acl import Acl
from penstock.policy.access.passwords import Passwords


class Admission:
    """The rules of who may connect, and the answer to a sender whose message is suppressed."""

    __slots__ = ("acl", "hides", "passwords", "unchecked")

    def __init__(self, passwords: Passwords | None, acl: Acl | None) -> None:
        self.passwords = passwords
        self.acl = acl
        self.unchecked = ""
        """The reason to refuse a user name that nobody can check here; empty: any name is accepted."""
        self.hides = False
        """True if a publisher is not told what becomes of its message: every one is answered alike."""


class Runtime:
    """The services of the process that runs a node: time, randomness, and its place."""

    __slots__ = ("clock", "host", "load", "make_id", "make_nonce", "paid_steps")

    def __init__(self, make_id: Callable[[], str], make_nonce: Callable[[], bytes] | None) -> None:
        self.make_id = make_id
        self.make_nonce = make_nonce
        """A source of nonces for proofs of membership, 32 bytes that never repeat; None: there are no such proofs
        here.
        """
        self.clock: Callable[[], float] = lambda: 0.0
        """The time, for policies that ask how long something took."""
        self.host = ""
        self.load = 0.0
        """The load of the node, from 0 to 1."""
        self.paid_steps = 0
        """The steps of conditions so far that subscribers have paid for."""


def alone(name: str) -> Ensemble:
    """Return the ensemble of one open node."""
    listener = Listener(address=Address("127.0.0.1", 0))
    return ensemble(Domain(nodes={name: NodeSettings(listen=(listener,))}))
