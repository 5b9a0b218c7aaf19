"""The case files of stages that govern speaks of: a client's view, cut to what it subscribed to, is what it got."""

from dataclasses import dataclass

import pytest
from pyspark.sql import Row, SparkSession

from penstock.pipeline.spark.policies import as_it_stood
from penstock.pipeline.stages.govern import view
from penstock.pipeline.tables import tables
from tests.support.cases.recording import Recording, RecordingPlayer
from tests.support.cases.script import Case, cases
from tests.support.memory.recording import Written

pytestmark = pytest.mark.recorded

STAGES = ("admit", "conform", "match")
ALL = [case for stage in STAGES for case in cases(stage)]

_RETAINED = "who subscribes later gets what is retained: a view begins with the first event, and has it once"
_TURNS = "of a group's members one gets the event: each might have"
_QUEUE = "what waited is judged again by later policies: a view is as it stood when the event came"
OTHERWISE = {
    "a publication that is refused is not retained either": _RETAINED,
    "a will and a retained message must be as advertised": _RETAINED,
    "a retained message comes if it satisfies the subscription": _RETAINED,
    "what is retained is judged again by what the domain advertises for its publisher now": _RETAINED,
    "what waits is judged again by what the domain advertises for its publisher now": _QUEUE,
    "what a client advertises later does not reach back to what it has published": _RETAINED,
    "what the domain says of some topics holds for what is retained, what waits, and after a reload": _RETAINED,
    "when the domain's condition changes, so does what comes, and what waits is judged again": _QUEUE,
    "what waits in a queue is judged by the rights of the day": _QUEUE,
    "the members of a group are served in turn": _TURNS,
    "a group, another group and a plain subscription each get the message": "an event comes once for each group",
    "one group with two filters is two groups": "an event comes once for each group",
    "a message goes to a member with the member's QoS": _TURNS,
    "a member that is away is passed over while another is there": _TURNS,
    "when all members are away the messages wait for them, in turn": _TURNS,
    "a member whose window is full is passed over": _TURNS,
    "a member that may not read the topic is passed over": _TURNS,
    "a member that subscribes again keeps its place, with its new options": _TURNS,
    "a message that a member refuses is given to nobody else": _TURNS,
    "a QoS 2 message on its way to a member is not given to another when that member's session ends": _TURNS,
    "the will of a session that ends is for the other members of its group": _TURNS,
}
"""Cases in which a client gets other than its view, cut to its subscriptions, and why: it is not policy."""

WITHOUT_EVENTS = {
    "a will whose topic has too many levels is refused with its CONNECT",
    "a retained message where there are none is a breach",
    "an authentication method that the node does not have is refused",
    "a session that is kept needs a client id in MQTT 3.1.1",
    "a PUBREL for an identifier that is not held is answered so",
    "a client's publication has no subscription identifier",
    "nobody can subscribe to what is advertised on the control topic",
    "a name with a control character in it, or a very long one, is refused",
    "a refused subscription is 0x80 in MQTT 3.1.1",
    "a session may hold only so many subscriptions, one taken again is not one more",
    "a filter with too many levels is refused",
    "a subscription is granted at most the node's QoS",
}
"""Cases about connections, breaches and what may be subscribed to: no event comes as far as a stage."""


@dataclass(frozen=True)
class Played:
    recordings: dict[str, Recording]
    rows: dict[int, Row]
    views: dict[str, set[tuple[int, int]]]
    """By subject, what is in its view: sequence number and place."""


@pytest.fixture(scope="module")
def played(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Played:
    journal = Written(tmp_path_factory.mktemp("cases") / "journal")
    recordings = {}
    for case in ALL:
        player = RecordingPlayer(case, tmp_path_factory.mktemp("case"), journal)
        player.play()
        recordings[case.title] = player.recording
    events = tables.events(spark, journal.folder)
    rows = {row.seq: row for row in events.collect()}
    askers = {asker for one in recordings.values() for asker in one.got}
    views: dict[str, set[tuple[int, int]]] = {}
    for row in view(events, as_it_stood(journal.folder), tuple(sorted(askers, key=str))).collect():
        views.setdefault(row.subject, set()).add((row.seq, row.place))
    return Played(recordings, rows, views)


@pytest.mark.parametrize("case", [case for case in ALL if case.title not in OTHERWISE], ids=str)
def test_what_a_client_got_is_its_view(case: Case, played: Played) -> None:
    recording = played.recordings[case.title]
    for asker, got in recording.got.items():
        assert recording.expected(played.rows, played.views, asker) == got, asker.label


@pytest.mark.parametrize("case", ALL, ids=str)
def test_nothing_came_that_is_not_in_the_view(case: Case, played: Played) -> None:
    recording = played.recordings[case.title]
    for asker, got in recording.got.items():
        assert set(got) <= recording.authorised(played.rows, played.views, asker), asker.label


@pytest.mark.parametrize("title", OTHERWISE)
def test_what_sessions_do_is_told_of_cases_that_there_are(title: str, played: Played) -> None:
    recording = played.recordings[title]
    differ = [
        asker for asker, got in recording.got.items() if recording.expected(played.rows, played.views, asker) != got
    ]
    assert differ, "it need not be left out"


def test_cases_without_events_are_known(played: Played) -> None:
    assert {title for title, one in played.recordings.items() if not one.steps} == WITHOUT_EVENTS
