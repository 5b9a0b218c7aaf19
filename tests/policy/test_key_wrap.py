"""The secret of a group for public keys: members open it, others do not, and who is taken out no longer does."""

import pytest

from penstock.policy.trust import key_wrap
from penstock.policy.trust.key_wrap import KeyWrapError

SECRET = b"a secret of the group, long enough"


def test_members_open_the_secret_and_nobody_else() -> None:
    members = [key_wrap.read_private_key(key_wrap.make_private_key()) for _ in range(3)]
    sealed = key_wrap.seal_secret(SECRET, map(key_wrap.public_key, members[:2]))
    assert SECRET not in sealed
    assert [key_wrap.open_secret(sealed, member) for member in members[:2]] == [SECRET, SECRET]
    with pytest.raises(KeyWrapError, match="is no member, or no longer"):
        key_wrap.open_secret(sealed, members[2])


def test_what_is_for_one_member_cannot_be_put_under_the_name_of_another() -> None:
    first, second = (key_wrap.read_private_key(key_wrap.make_private_key()) for _ in range(2))
    header, line = key_wrap.seal_secret(SECRET, [key_wrap.public_key(first)]).splitlines()
    swapped = key_wrap.public_key(second).encode() + b" " + line.partition(b" ")[2]
    for content in (header + b"\n" + swapped, header + b"\n" + line[:-4] + b"AAAA"):
        with pytest.raises(KeyWrapError):
            key_wrap.open_secret(content, second if b"AAAA" not in content[-4:] else first)


@pytest.mark.parametrize("content", [b"", b"penstock", b"not a key at all"])
def test_what_is_no_file_of_secrets_is_refused(content: bytes) -> None:
    private = key_wrap.read_private_key(key_wrap.make_private_key())
    with pytest.raises(KeyWrapError):
        key_wrap.open_secret(content, private)
    with pytest.raises(KeyWrapError):
        key_wrap.read_private_key(content)
