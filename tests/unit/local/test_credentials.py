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


def test_the_first_api_key_is_kept_beside_the_others(tmp_path):
    where = layout(tmp_path)
    made = credentials.load_or_make(where)
    credentials.remember_api_key(where, "hr_abc_def")
    kept = credentials.load(where)
    assert kept is not None
    assert (kept.api_key, kept.admin_token) == ("hr_abc_def", made.admin_token)
