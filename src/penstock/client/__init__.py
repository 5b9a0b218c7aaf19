"""A small asyncio client for nodes: conditions on subscriptions, advertisements, and the node's refusals as exceptions.

async with Client("localhost") as client:
    hot = await client.subscribe("plant/#", "temperature > 80")
    await client.publish("plant/pump-7", {"temperature": 91.5})
    async for event in hot:
        print(event.topic, event.attributes["temperature"])

`docs/client.md` is the page.
"""

from penstock.client import policies
from penstock.client.client import Advertisement, Client
from penstock.client.errors import Disconnected, Refused
from penstock.client.event import Event
from penstock.client.subscription import Subscription
from penstock.client.token_request import TokenRequestError, request_token
from penstock.language.errors import ConditionError, StatementError
from penstock.model.errors import ContentError, TopicError

__all__ = [
    "Advertisement", "Client", "ConditionError", "ContentError", "Disconnected", "Event", "Refused", "StatementError",
    "Subscription", "TokenRequestError", "TopicError", "policies", "request_token",
]  # fmt: skip
