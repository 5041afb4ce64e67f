from headrace_kit.migrate import run_env
from headrace_training.tables import METADATA

run_env(METADATA)
