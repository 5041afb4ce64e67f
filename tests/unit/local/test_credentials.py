import re
import stat

from headrace_local import credentials
from headrace_local.options import layout


def test_secrets_are_made_once_and_only_the_owner_reads_them(tmp_path):
    where = layout(tmp_path)
    made = credentials.load_or_make(where)
    assert credentials.load_or_make(where) == made
    for file in (where.secrets, where.postgres_password):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_two_stacks_have_different_secrets(tmp_path):
    one, other = (credentials.load_or_make(layout(tmp_path / name)) for name in ("one", "other"))
    assert not {one.admin_token, one.s3_secret_key, one.postgres_password} & {
        other.admin_token,
        other.s3_secret_key,
        other.postgres_password,
    }


def test_a_revoked_api_key_is_replaced_and_nothing_else(tmp_path):
    where = layout(tmp_path)
    made = credentials.load_or_make(where)
    new = credentials.replace_api_key(where)
    kept = credentials.load(where)
    assert kept is not None
    assert new == kept.api_key != made.api_key
    assert kept.admin_token == made.admin_token


def test_an_api_key_has_the_form_that_the_registry_takes():
    assert re.fullmatch(r"hr_[a-z0-9]{8}_[A-Za-z0-9_-]{20,}", credentials.new_api_key())
