from headrace_console.tables import METADATA
from headrace_kit.migrate import run_env

run_env(METADATA)
