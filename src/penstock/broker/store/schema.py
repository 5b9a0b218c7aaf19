"""The tables of a store, and the migrations from older formats. A new store has format 2 first, and goes all steps."""

_BASE = """
CREATE TABLE session (
  id INTEGER PRIMARY KEY, client_id TEXT NOT NULL, user TEXT, listener TEXT NOT NULL, certificate TEXT,
  version INTEGER NOT NULL, expiry REAL NOT NULL, ended REAL, will_topic TEXT,
  will_payload BLOB, will_qos INTEGER, will_retain INTEGER, will_properties BLOB,
  will_delay INTEGER, will_lifetime INTEGER
);
CREATE TABLE retained (
  topic TEXT PRIMARY KEY, payload BLOB NOT NULL, qos INTEGER NOT NULL, properties BLOB NOT NULL, expires REAL,
  origin TEXT NOT NULL, user TEXT, link_type TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE message (
  id INTEGER PRIMARY KEY, topic TEXT NOT NULL, payload BLOB NOT NULL, qos INTEGER NOT NULL, properties BLOB NOT NULL,
  expires REAL, origin TEXT NOT NULL, user TEXT, link_type TEXT NOT NULL
);
CREATE TABLE delivery (
  id INTEGER PRIMARY KEY, session INTEGER NOT NULL, message INTEGER NOT NULL, qos INTEGER NOT NULL,
  retain INTEGER NOT NULL, identifiers TEXT NOT NULL, state INTEGER NOT NULL, packet_id INTEGER NOT NULL
);
CREATE TABLE monitor (
  source TEXT NOT NULL, target TEXT NOT NULL, name TEXT NOT NULL, state BLOB NOT NULL,
  PRIMARY KEY (source, target, name)
) WITHOUT ROWID;
CREATE TABLE received (
  session INTEGER NOT NULL, packet_id INTEGER NOT NULL, PRIMARY KEY (session, packet_id)
) WITHOUT ROWID;
"""
_SUBSCRIPTIONS = """
CREATE TABLE subscription (
  session INTEGER NOT NULL, filter TEXT NOT NULL, name TEXT NOT NULL, qos INTEGER NOT NULL, no_local INTEGER NOT NULL,
  retain_as_published INTEGER NOT NULL, identifier INTEGER NOT NULL, asked TEXT NOT NULL, is_local INTEGER NOT NULL,
  PRIMARY KEY (session, filter, name)
) WITHOUT ROWID;
CREATE TABLE advertisement (
  session INTEGER NOT NULL, name TEXT NOT NULL, filter TEXT NOT NULL, asked TEXT NOT NULL, scope TEXT NOT NULL,
  PRIMARY KEY (session, name)
) WITHOUT ROWID;
"""

_FROM_1 = f"""
ALTER TABLE subscription RENAME TO earlier;
{_SUBSCRIPTIONS}
INSERT INTO subscription
  SELECT session, filter, '', qos, no_local, retain_as_published, identifier, '', 0 FROM earlier;
DROP TABLE earlier;
"""
"""Format 2: subscriptions have names and conditions, and clients advertise."""

_FROM_2 = """
CREATE TABLE standing (
  session INTEGER NOT NULL, source TEXT NOT NULL, withheld BLOB NOT NULL, PRIMARY KEY (session, source)
) WITHOUT ROWID;
"""
"""Format 3: metrics that are owed to readers of Sparkplug messages."""

_FROM_3 = "CREATE TABLE access (digest TEXT NOT NULL);"
"""Format 4: the access policies that waiting messages were judged by."""

_FROM_4 = """
ALTER TABLE subscription ADD COLUMN policy TEXT NOT NULL DEFAULT '';
ALTER TABLE advertisement ADD COLUMN policy TEXT NOT NULL DEFAULT '';
CREATE TABLE statements (digest TEXT NOT NULL);
CREATE TABLE persisted (
  id INTEGER PRIMARY KEY, time REAL NOT NULL, collection TEXT NOT NULL, policy TEXT NOT NULL, topic TEXT NOT NULL,
  payload BLOB NOT NULL
);
"""
"""Format 5: policies of subscriptions and advertisements, digests of the policies in force, persisted messages."""

_FROM_5 = "CREATE TABLE bound (session INTEGER PRIMARY KEY, groups TEXT NOT NULL);"
"""Format 6: the trust groups that sessions are bound to."""

_FROM_6 = """
ALTER TABLE retained ADD COLUMN token TEXT NOT NULL DEFAULT '';
ALTER TABLE message ADD COLUMN token TEXT NOT NULL DEFAULT '';
CREATE TABLE shown (session INTEGER PRIMARY KEY, token BLOB NOT NULL);
CREATE TABLE token (digest TEXT PRIMARY KEY, token BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE evidence (
  neighbour TEXT PRIMARY KEY, good REAL NOT NULL, bad REAL NOT NULL, at REAL NOT NULL
) WITHOUT ROWID;
"""
"""Format 7: tokens of clients and of events, and evidence about neighbours."""

_FROM_7 = """
CREATE TABLE brought (
  session INTEGER NOT NULL, name TEXT NOT NULL, made BLOB NOT NULL, PRIMARY KEY (session, name)
) WITHOUT ROWID;
CREATE TABLE held (
  id INTEGER PRIMARY KEY, session INTEGER NOT NULL, at REAL NOT NULL, topic TEXT NOT NULL, payload BLOB NOT NULL,
  qos INTEGER NOT NULL, properties BLOB NOT NULL, expires REAL, origin TEXT NOT NULL, user TEXT,
  link_type TEXT NOT NULL,
  token TEXT NOT NULL
);
CREATE TABLE collected (
  session INTEGER NOT NULL, about BLOB NOT NULL, topic TEXT NOT NULL, qos INTEGER NOT NULL, properties BLOB NOT NULL,
  origin TEXT NOT NULL, user TEXT, window BLOB NOT NULL, PRIMARY KEY (session, about)
) WITHOUT ROWID;
"""
"""Format 8: contracts that clients have brought, and events that contracts hold back."""

_FROM_8 = """
ALTER TABLE retained ADD COLUMN path TEXT NOT NULL DEFAULT '';
ALTER TABLE message ADD COLUMN path TEXT NOT NULL DEFAULT '';
ALTER TABLE held ADD COLUMN path TEXT NOT NULL DEFAULT '';
ALTER TABLE collected ADD COLUMN link_type TEXT NOT NULL DEFAULT '';
ALTER TABLE collected ADD COLUMN path TEXT NOT NULL DEFAULT '';
UPDATE retained SET path = substr(origin, 7) WHERE substr(origin, 1, 6) = '$node/';
UPDATE message SET path = substr(origin, 7) WHERE substr(origin, 1, 6) = '$node/';
UPDATE held SET path = substr(origin, 7) WHERE substr(origin, 1, 6) = '$node/';
DELETE FROM collected;
"""
"""Format 9: the nodes that an event has passed, and the link of collected events. Of older events only the last node
is known, which is enough to know that they began elsewhere; collected ones may be incomplete."""

_FROM_9 = "ALTER TABLE held ADD COLUMN retain INTEGER NOT NULL DEFAULT 0;"
"""Format 10: whether events that contracts hold back are sent as retained."""

_FROM_10 = """
CREATE TABLE revision (
  number INTEGER PRIMARY KEY, access TEXT NOT NULL, statements TEXT NOT NULL, monitors TEXT NOT NULL
);
ALTER TABLE delivery ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;
ALTER TABLE held ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;
INSERT INTO revision
  SELECT 0, coalesce((SELECT digest FROM access), ''), coalesce((SELECT digest FROM statements), ''), '';
DROP TABLE access;
DROP TABLE statements;
CREATE TABLE rights (node TEXT PRIMARY KEY, at REAL NOT NULL, text TEXT) WITHOUT ROWID;
"""
"""Format 11: the policies that each waiting message was judged by."""

_FROM_11 = """
CREATE TABLE capsule (
  name TEXT NOT NULL, key BLOB NOT NULL, value BLOB NOT NULL, PRIMARY KEY (name, key)
) WITHOUT ROWID;
"""
"""Format 12: what the capsules of a node remember."""

_FROM_12 = """
CREATE TABLE refused (
  session INTEGER NOT NULL, packet_id INTEGER NOT NULL, reason INTEGER NOT NULL, text TEXT NOT NULL,
  digest BLOB NOT NULL, PRIMARY KEY (session, packet_id)
) WITHOUT ROWID;
"""
"""Format 13: QoS 2 messages that were refused."""

_FROM_13 = "UPDATE advertisement SET scope = '' WHERE scope = 'global';"
"""Format 14: `global` is what somebody has said; before, it was also what was not said."""

_FROM_14 = """
CREATE TABLE moving (session INTEGER PRIMARY KEY, state BLOB NOT NULL);
ALTER TABLE session ADD COLUMN began REAL NOT NULL DEFAULT 0;
"""
"""Format 15: sessions that go to another node, or come from one; and when clients connected, as the newest counts."""

STEPS = (
    _FROM_1,
    _FROM_2,
    _FROM_3,
    _FROM_4,
    _FROM_5,
    _FROM_6,
    _FROM_7,
    _FROM_8,
    _FROM_9,
    _FROM_10,
    _FROM_11,
    _FROM_12,
    _FROM_13,
    _FROM_14,
)
"""Migrations, each from one format to the next."""
VERSION = len(STEPS) + 1
SCHEMA = _BASE + _SUBSCRIPTIONS + "".join(STEPS[1:]) + "DELETE FROM revision;"  # nothing waits yet
