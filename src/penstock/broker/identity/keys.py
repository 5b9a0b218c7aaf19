"""The key files of a node for tokens."""

from penstock.domain import NodeSettings
from penstock.domain.schema.tokens import TokenSettings
from penstock.engine.trust.tokens import Keys
from penstock.model.errors import PolicyError
from penstock.policy.tokens.keys import KeySet, SigningKey
from penstock.policy.tokens.revocation import NOTHING, Revoked


def read_keys(node: str, settings: NodeSettings, tokens: TokenSettings) -> Keys:
    """Read the keys a node signs and verifies with; raise `PolicyError`."""
    if settings.signing_key is None:
        raise PolicyError(f"node `{node}` has no `signing_key`, and there are tokens")
    signing, public = SigningKey.read(settings.signing_key), KeySet.read(tokens.keys)
    if public.find(node, signing.key_id) is None:
        what = f"the public half of `{settings.signing_key}` is not in `{tokens.keys}` as a key of node `{node}`"
        raise PolicyError(f"{what}: add it with `penstock token key`")
    return Keys(signing, public, Revoked.read(tokens.revoked) if tokens.revoked is not None else NOTHING)
