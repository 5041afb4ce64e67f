from headrace_feedback.tables import METADATA
from headrace_kit.migrate import run_env

run_env(METADATA)
