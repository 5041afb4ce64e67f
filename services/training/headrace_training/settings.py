"""Settings of the training service, read when the process starts. Hyper-parameters are in recipes.py."""

import tempfile
from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from headrace_kit.settings import DESCRIBED, HttpSettings


class TrainingSettings(HttpSettings):
    model_config = SettingsConfigDict(env_prefix="TRAINING_", **DESCRIBED)  # type: ignore[typeddict-item]

    work_dir: Path = Path(tempfile.gettempdir()) / "headrace-training"
    """Folders of runs under way; each is removed when its run has ended."""
    lease_s: float = Field(default=10.0, gt=0)
    """A run whose worker was not heard of for so many seconds is another worker's."""
    look_every_s: float = Field(default=0.5, gt=0)
    """How often triggers and the queue of runs are looked at."""
    workers: int = Field(default=1, ge=0)
    """Runs that this process trains at once; 0 only follows events and queues runs."""


class ModelSettings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="HEADRACE_", **DESCRIBED)  # type: ignore[typeddict-item]

    models_dir: Path
    """Folder with one sub-folder per base model, as `save_pretrained` writes it."""
