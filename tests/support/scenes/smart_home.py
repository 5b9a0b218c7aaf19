"""The smart home of the examples, played without sockets and recorded."""

from collections.abc import Iterator
from pathlib import Path

from penstock.domain import Domain, ensemble, load
from penstock.engine.rehearsal.rehearsal import Rehearsal
from tests.support.memory.recording import Written, record

FILE = Path(__file__).parents[3] / "examples" / "smart-home" / "domain.yaml"
BARRIER = "deny: [{from: sensitive, to: internet}]"
"""The rule that keeps motion at home."""
WANTS = {
    "bell": ("MD_motion", "MD_no_motion", "SC_send", "AC_grant", "AC_deny"),
    "camera": ("SC_request",),
    "phone": ("AC_request",),
    "lock": ("DL_unlock",),
}
SAID = (
    ("motion", "MD_no_motion", b""),
    ("bell", "SC_request", b"aunt"),
    ("camera", "SC_send", b"picture of aunt"),
    ("bell", "AC_request", b"picture of aunt"),
    ("phone", "DL_unlock", b"now"),
    ("bell", "DL_unlock", b"too early"),
    ("phone", "AC_grant", b""),
    ("bell", "DL_unlock", b""),
    ("motion", "MD_motion", b'{"person": 0.9}'),
    ("motion", "MD_motion", b'{"person": 0.2}'),
)
"""Who said what: the normal flow, an unlock from outside, one that comes too early, somebody and the cat."""


def leaky(folder: Path) -> Path:
    """A draft of the domain that lets motion out of the house."""
    text = FILE.read_text(encoding="utf-8")
    assert text.count(BARRIER) == 1
    file = folder / "leaky.yaml"
    file.write_text(text.replace(BARRIER, "deny: []"), "utf-8")
    return file


def recorded_home(journal: Path) -> Iterator[tuple[str, str, str]]:
    """Record it; yields what was delivered: who got it, at which node, the topic."""
    domain: Domain = load(FILE)
    play = Rehearsal(domain, ensemble(domain))
    record(play)
    for device in domain.clients:
        play.connect(device)
    for device, filters in WANTS.items():
        for filter in filters:
            play.subscribe(device, filter, no_local=False)
    for device, topic, payload in SAID:
        play.publish(device, topic, payload, 1)
        play.run()
        play.wait(1.0)
    written = Written(journal)
    written.add_all(play.nodes.values(), written.keep(domain))
    for device in domain.clients:
        for one in play.deliveries(device):
            yield device, one.node, one.topic
